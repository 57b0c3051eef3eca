{{/*
The processes. `pool`: default number of connections to PostgreSQL; `confined`: it processes untrusted files, and gets
neither keys of providers nor Qdrant; `uploads`: it reads or writes uploads; `stage`: it is scaled by `wanted`; `secrets`:
the optional secrets that it needs, as in shared/settings/secrets_of_roles.py.
*/}}
{{- define "foreask.workloads" -}}
api: {args: [api], pool: 10, uploads: true, confined: false, stage: false, secrets: [QDRANT_API_KEY, LLM_API_KEY, EMBEDDING_API_KEY, EMBEDDINGS, RERANK_API_KEY, OIDC_CLIENT_SECRET]}
parse: {args: [worker, parse], pool: 4, uploads: true, confined: true, stage: true, secrets: []}
read: {args: [worker, read], pool: 4, uploads: true, confined: true, stage: true, secrets: []}
generate: {args: [worker, generate], pool: 4, uploads: false, confined: false, stage: true, secrets: [LLM_API_KEY, EMBEDDINGS]}
index: {args: [worker, index], pool: 4, uploads: false, confined: false, stage: true, secrets: [QDRANT_API_KEY, LLM_API_KEY, EMBEDDING_API_KEY, EMBEDDINGS, RERANK_API_KEY]}
scheduler: {args: [scheduler], pool: 10, uploads: true, confined: false, stage: false, secrets: [QDRANT_API_KEY, EMBEDDINGS]}
{{- end }}

{{/* Settings of confined processes: the variables that docker-compose.yml passes to `worker-parse`. */}}
{{- define "foreask.confinedSettings" -}}
- FOREASK_CELERY_REMOTE_CONTROL
- FOREASK_LLM_MODEL
- FOREASK_PARSE_ISOLATION
- FOREASK_SOURCE_ROOTS
- FOREASK_SOURCES_PRIVATE_NETWORKS
- FOREASK_SOURCE_TEMPORARY_BYTES
- FOREASK_CRAWL_CONTACT
- FOREASK_MAX_UPLOAD_BYTES
- FOREASK_QUESTIONS_PER_CHUNK
- FOREASK_CHUNK_MAX_CHARS
- FOREASK_CHUNK_OVERLAP_CHARS
- FOREASK_OCR
- FOREASK_OCR_LANGUAGES
- FOREASK_CAPTIONS
- FOREASK_CAPTIONS_PER_DOCUMENT
- FOREASK_PARSE_WORKERS
- FOREASK_PARSE_TIMEOUT
- FOREASK_DATABASE_POOLER
- FOREASK_DATABASE_POOL_SIZE
- FOREASK_TENANT_WEIGHTS
- FOREASK_SHUTDOWN_TIMEOUT
- FOREASK_LOG_LEVEL
- FOREASK_LOG_FORMAT
- FOREASK_METRICS_HOST
- FOREASK_CA_FILE
- AWS_REGION
- AWS_ENDPOINT_URL
- ALL_PROXY
- HTTP_PROXY
- HTTPS_PROXY
- NO_PROXY
- REQUESTS_CA_BUNDLE
- SSL_CERT_DIR
- SSL_CERT_FILE
{{- end }}

{{/* Whether an autoscaler sets the number of pods. Arguments: root, name, workload. */}}
{{- define "foreask.isScaled" -}}
{{- $mode := .root.Values.autoscaling.mode -}}
{{- if or (and (eq .name "api") (ne $mode "none")) (and .workload.stage (eq $mode "keda")) }}true{{ end -}}
{{- end }}

{{/* The maximum number of pods while nothing is updated. Arguments: root, name, workload. */}}
{{- define "foreask.mostPods" -}}
{{- $values := index .root.Values .name -}}
{{- if eq (int $values.replicas) 0 }}0{{ else if include "foreask.isScaled" . }}{{ int $values.maxReplicas }}{{ else }}{{ int $values.replicas }}{{ end -}}
{{- end }}

{{/* Connections to PostgreSQL during an update, when each Deployment has a quarter more pods, rounded up. */}}
{{- define "foreask.connections" -}}
{{- $sum := 4 -}}{{/* the schema Job, and three that PostgreSQL reserves for superusers */}}
{{- range $name, $workload := fromYaml (include "foreask.workloads" .) -}}
{{- $pods := include "foreask.mostPods" (dict "root" $ "name" $name "workload" $workload) | int -}}
{{- if $pods -}}
{{- $sum = add $sum (mul (add $pods (div (add $pods 3) 4)) (int ($.Values.settings.FOREASK_DATABASE_POOL_SIZE | default $workload.pool))) -}}
{{- end -}}
{{- end -}}
{{- $sum -}}
{{- end }}

{{- define "foreask.graceSeconds" -}}
{{- hasKey .Values.settings "FOREASK_SHUTDOWN_TIMEOUT" | ternary .Values.settings.FOREASK_SHUTDOWN_TIMEOUT 20 | int -}}
{{- end }}

{{/* Two readiness probes and one second. */}}
{{- define "foreask.drainSeconds" -}}
{{- hasKey .Values.settings "FOREASK_API_DRAIN" | ternary .Values.settings.FOREASK_API_DRAIN 11 | int -}}
{{- end }}

{{- define "foreask.podSecurity" -}}
runAsNonRoot: true
runAsUser: 10001
runAsGroup: 10001
fsGroup: 10001
fsGroupChangePolicy: OnRootMismatch
seccompProfile: {type: RuntimeDefault}
{{- end }}

{{- define "foreask.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end }}

{{/*
The container that waits for the schema. It has the extra variables and volumes of its process, which may be needed to
reach PostgreSQL. Arguments: root, plain, secret, extra, mounts.
*/}}
{{- define "foreask.waitForSchema" -}}
- name: schema
  image: {{ include "foreask.image" .root | quote }}
  imagePullPolicy: {{ .root.Values.image.pullPolicy }}
  args: [schema, --wait, {{ int .root.Values.schema.waitSeconds | quote }}]
  env:
    {{- include "foreask.envOf" (dict "root" .root "plain" (pick .plain "FOREASK_DATABASE_POOLER" "FOREASK_LOG_FORMAT" "FOREASK_LOG_LEVEL") "secret" (pick .secret "FOREASK_DATABASE_URL") "extra" .extra) | nindent 4 }}
  resources: {{- toYaml .root.Values.schema.resources | nindent 4 }}
  securityContext: {{- include "foreask.containerSecurity" . | nindent 4 }}
  {{- with .mounts }}
  volumeMounts: {{- toYaml . | nindent 4 }}
  {{- end }}
{{- end }}
