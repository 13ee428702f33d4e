// Measures the module in V8: node --no-liftoff --no-wasm-lazy-compilation pipeline.mjs FILE.wasm ROUNDS SLICE_MS
//
// Prints a line of JSON for each cell of each round. The two flags make V8 compile as in Envoy: at once and optimised.

import { readFile } from "node:fs/promises";
import { argv, hrtime } from "node:process";
import { WASI } from "node:wasi";

const [file, rounds, sliceMs] = argv.slice(2);
const wasi = new WASI({ version: "preview1" });
const module = await WebAssembly.compile(await readFile(file));

// The library imports Envoy's functions, which do not exist here.
const missing = WebAssembly.Module.imports(module).filter((wanted) => wanted.module === "env");
const refuse = (name) => () => {
  throw new Error(`${name} was called outside of Envoy`);
};
const env = Object.fromEntries(missing.map(({ name }) => [name, refuse(name)]));
const instance = await WebAssembly.instantiate(module, { env, ...wasi.getImportObject() });
// Only the memory is passed on: the library also exports the entry point of a filter, which would call Envoy.
const { memory, bodies, ways, run } = instance.exports;
wasi.initialize({ exports: { memory } });

function elapsed({ body, way }, times) {
  const started = hrtime.bigint();
  run(way, body, times);
  return Number(hrtime.bigint() - started);
}

// Returns how often a cell can be run in a slice of time, once it is warm.
function timesFor(cell, slice) {
  for (let times = 1; ; times *= 4) {
    const taken = elapsed(cell, times);
    if (taken * 4 > slice) return Math.max(1, Math.ceil((times * slice) / taken));
  }
}

// The first call creates the bodies, and the first copy makes the memory grow. Neither must be measured.
for (let body = 0; body < bodies(); body++) {
  for (let way = 0; way < ways(); way++) elapsed({ body, way }, 1);
}
const cells = [];
for (let body = 0; body < bodies(); body++) {
  for (let way = 0; way < ways(); way++) {
    const cell = { body, way };
    cells.push({ ...cell, times: timesFor(cell, Number(sliceMs) * 1e6) });
  }
}
for (let round = 0; round < Number(rounds); round++) {
  for (const { body, way, times } of cells) {
    console.log(JSON.stringify({ round, body, way, ns: elapsed({ body, way }, times) / times }));
  }
}
