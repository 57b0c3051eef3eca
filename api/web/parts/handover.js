// Values that a screen leaves for another screen.

/** Where lists were left: `search` is the selection of the list of documents, as a part of its address. */
export const lists = { search: "" };

/** A text to try. @type {{text: string | null}} */
export const pendingText = { text: null };
