/** All mechanisms by the names that a codebook gives them. */

import { type Mechanism } from "./base.ts";
import { duchi } from "./duchi.ts";
import { hybrid } from "./hybrid.ts";
import { krr } from "./krr.ts";
import { laplace } from "./laplace.ts";
import { hadamard, linearHash } from "./linear_hash.ts";
import { matrix } from "./matrix.ts";
import { ladder, tree } from "./mixture.ts";
import { olh } from "./olh.ts";
import { piecewise } from "./piecewise.ts";
import { rr } from "./rr.ts";
import { subset } from "./subset.ts";
import { table } from "./table.ts";
import { oue, sue } from "./unary.ts";

export const MECHANISMS: ReadonlyMap<string, Mechanism> = new Map(
  Object.entries({
    duchi,
    hadamard,
    hybrid,
    krr,
    ladder,
    laplace,
    "linear-hash": linearHash,
    matrix,
    olh,
    oue,
    piecewise,
    rr,
    subset,
    sue,
    table,
    tree,
  }),
);
