// Where lists were left, so that links lead back to them.

/** `search` is the selection of the list of documents, as a part of its address. */
export const lists = { search: "" };
