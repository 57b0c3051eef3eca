// Names of the API's schemas for the page's modules: `Api["DocumentView"]`.

type Api = import("../../../build/page-types/api").components["schemas"];

interface Navigator {
  readonly locks: LockManager;
}

/** An event with its type of target. */
type On<Target extends Element> = Event & { target: Target };
/** A drop with its data. */
type Dropped = DragEvent & { dataTransfer: DataTransfer };

/** A dropped file or folder: `isFile` distinguishes them. */
type DroppedEntry = (FileSystemFileEntry & { isFile: true }) | (FileSystemDirectoryEntry & { isFile: false });

interface DataTransferItem {
  webkitGetAsEntry(): DroppedEntry | null;
}

interface FileSystemDirectoryReader {
  readEntries(read: (entries: DroppedEntry[]) => void, failed?: (error: DOMException) => void): void;
}
