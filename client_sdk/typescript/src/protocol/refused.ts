/** A refusal: a document breaks a rule. `error` names the rule's kind where the protocol names it. */
export class Refused extends Error {
  readonly error: string;

  constructor(why: string, error = "") {
    super(why);
    this.error = error;
  }
}

/** Refuse unless this holds. */
export function require(holds: unknown, why: string): asserts holds {
  if (!holds) throw new Refused(why);
}
