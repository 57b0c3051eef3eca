// The names that the page's modules use for what the API replies: `Api["DocumentView"]`.

type Api = import("../../../build/page-types/api").components["schemas"];

interface Navigator {
  readonly locks: LockManager;
}
