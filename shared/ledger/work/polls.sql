-- Conditions of the scheduler's steps. Each holds whenever the step has work, and may hold without work: the step itself
-- selects the rows. All are evaluated together every few seconds, so an index, or a table of few rows, answers each.

-- name: sweep
SELECT EXISTS (SELECT 1 FROM sweeps WHERE due_at <= now())

-- name: finish
SELECT EXISTS (SELECT 1 FROM documents WHERE {ENDING_QUEUE} AND due_at <= now())

-- name: describe
SELECT EXISTS (SELECT 1 FROM documents WHERE description_due_at <= now())

-- name: purge
SELECT EXISTS (SELECT 1 FROM document_versions WHERE obsolete)
    OR EXISTS (SELECT 1 FROM abandoned_calls WHERE due_at <= now())

-- name: delete
SELECT EXISTS (SELECT 1 FROM documents WHERE state = {DocumentState.DELETING} AND due_at <= now())

-- name: drop
SELECT EXISTS (SELECT 1 FROM collections WHERE {is_dropping} OR emptied_at IS NOT NULL)

-- name: outdate
SELECT EXISTS (SELECT 1 FROM outdated_objects WHERE due_at <= now())

-- name: reindex
SELECT EXISTS (SELECT 1 FROM collections WHERE reindexed_until IS NOT NULL)

-- name: jobs
SELECT EXISTS (SELECT 1 FROM jobs WHERE ended_at IS NULL)

-- name: fill
SELECT EXISTS (SELECT 1 FROM collections WHERE build_state = {BuildState.FILLING})

-- name: yield_batches
SELECT EXISTS (SELECT 1 FROM batch_lines)

-- name: book_lost_calls
SELECT EXISTS (SELECT 1 FROM budget_holds WHERE held > 0)

-- name: fold_tallies
SELECT EXISTS (SELECT 1 FROM tally_changes)

-- name: fold_costs
SELECT EXISTS (SELECT 1 FROM spent_changes)

-- name: wake_calibrations
SELECT EXISTS (SELECT 1 FROM collections WHERE calibration_due_at <= now())

-- name: wake_jobs
SELECT EXISTS (SELECT 1 FROM job_claims)

-- name: wake_batches
SELECT EXISTS (SELECT 1 FROM batches WHERE {OPEN_BATCHES} AND due_at <= now())
    OR EXISTS (SELECT 1 FROM chunks_open WHERE {GENERATE_QUEUE})

-- name: repair_indexes
SELECT EXISTS (SELECT 1 FROM collections WHERE damage IS NOT NULL)
