/** No storage: on a server that renders pages, in a sandboxed frame, in an insecure page. Nothing is kept or sent. */

import { type Storage } from "../device/storage.ts";

const refuse = (): never => {
  throw new Error("nothing can be kept here");
};

export class Nowhere implements Storage {
  exists = (): Promise<boolean> => Promise.resolve(false);
  transact = refuse;
  long = refuse;
  note = refuse;
  notes = (): [] => [];
  forget = (): void => undefined;
  isOff = (): boolean => false;
  switchOff = (): boolean => false;
  alone = (): Promise<undefined> => Promise.resolve(undefined);
  close = (): void => undefined;
}
