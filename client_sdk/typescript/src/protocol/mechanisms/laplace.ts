/** Discrete Laplace noise on a grid, clamped far outside. */

import { LAPLACE_REACH, MOST_STEPS } from "../../generated/limits.ts";
import { discreteLaplace } from "../draws.ts";
import { require } from "../refused.ts";
import { type Mechanism, type Parameters, type Place, point, sizeOfSymbol, symbol } from "./base.ts";

const symbols = (p: Parameters): bigint => p.steps! + 2n * p.reach! + 1n;

export const laplace: Mechanism<Place> = {
  means: true,
  texts: ["scale", "rate", "reach"],
  numbers: ["steps"],
  logarithm: true,
  ratio: ({ scale, rate, reach, steps }) => {
    require(scale! && rate! && reach! && steps! && steps! <= MOST_STEPS, "a parameter is out of range");
    require(reach! * rate! * LAPLACE_REACH[1] >= LAPLACE_REACH[0] * scale!, "reach is too short");
    return [steps! * rate!, scale!];
  },
  bytes: (p) => sizeOfSymbol(symbols(p)),
  randomize: (take, place, p) => {
    const y = point(take, place, p.steps!) + discreteLaplace(take, p.scale!, p.rate!);
    const most = p.steps! + p.reach!;
    return symbol((y < -p.reach! ? -p.reach! : y > most ? most : y) + p.reach!, symbols(p));
  },
};
