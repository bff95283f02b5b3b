/** No storage: on a server that renders pages, in a sandboxed frame, in an insecure page. Nothing is kept or sent. */

import { type Storage } from "../device/storage.ts";

const refuse = (): never => {
  throw new Error("nothing can be kept here");
};

export class Nowhere implements Storage {
  exists = (): Promise<boolean> => Promise.resolve(false);
  transact = (): Promise<never> => Promise.reject(new Error("nothing can be kept here"));
  long = refuse;
  note = refuse;
  notes = (): [] => [];
  forget = (): void => undefined;
  isOff = (): boolean => false;
  switchOff = (): boolean => false;
  alone = <T>(act: () => Promise<T>): Promise<T> => act();
  close = (): void => undefined;
}
