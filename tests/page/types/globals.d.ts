// The names that the page's modules use for what the API replies: `Api["DocumentView"]`.

type Api = import("../../../build/page-types/api").components["schemas"];

interface Navigator {
  readonly locks: LockManager;
}

/** An event that happened to an element of a kind. */
type On<Target extends Element> = Event & { target: Target };
/** The end of a drag, with what was dragged. */
type Dropped = DragEvent & { dataTransfer: DataTransfer };

/** A file or a folder that was dropped: `isFile` says which. */
type DroppedEntry = (FileSystemFileEntry & { isFile: true }) | (FileSystemDirectoryEntry & { isFile: false });

interface DataTransferItem {
  webkitGetAsEntry(): DroppedEntry | null;
}

interface FileSystemDirectoryReader {
  readEntries(read: (entries: DroppedEntry[]) => void, failed?: (error: DOMException) => void): void;
}
