/** Sources without the reasons of refusals: `require(holds, "why")` becomes `require(holds)`. */

/** Where the call that opens here ends, and its last comma outside of any bracket or string. */
const callAt = (source, opening) => {
  let depth = 0;
  let comma = -1;
  for (let i = opening; i < source.length; i++) {
    const char = source[i];
    if (char === '"' || char === "`") {
      for (i++; source[i] !== char; i++) if (source[i] === "\\") i++;
    } else if (char === "/" && /[(,=!]\s*$/.test(source.slice(opening, i))) {
      let isClass = false;
      for (i++; isClass || source[i] !== "/"; i++) {
        if (source[i] === "\\") i++;
        else if (source[i] === "[") isClass = true;
        else if (source[i] === "]") isClass = false;
      }
    } else if ("([{".includes(char)) depth++;
    else if (")]}".includes(char)) {
      if (!--depth) return { end: i, comma };
    } else if (char === "," && depth === 1) comma = i;
  }
  throw new Error("a call does not end");
};

export const withoutReasons = (source) => {
  let made = "";
  let at = 0;
  for (const { index } of source.matchAll(/(?<![\w.])require\(/g)) {
    const { end, comma } = callAt(source, index + "require".length);
    const isTrailing = /^,\s*$/.test(source.slice(comma, end));
    const last = isTrailing ? source.slice(0, comma).lastIndexOf(",") : comma;
    // Only text, or the name of a member.
    if (index < at || last < index || !/^,\s*("[^"]*"|\w+),?\s*$/.test(source.slice(last, end))) continue;
    made += source.slice(at, last);
    at = end;
  }
  return made + source.slice(at);
};
