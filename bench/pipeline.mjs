// Measures the module in V8: node --no-liftoff --no-wasm-lazy-compilation pipeline.mjs FILE.wasm ROUNDS SLICE_MS
//
// Prints a line of JSON for each cell of each round. The two flags make V8 compile as Envoy has it do: at once and well.

import { readFile } from "node:fs/promises";
import { argv, hrtime } from "node:process";
import { WASI } from "node:wasi";

const [file, rounds, sliceMs] = argv.slice(2);
const wasi = new WASI({ version: "preview1" });
const module = await WebAssembly.compile(await readFile(file));

// The library names Envoy's functions, which there are none of here.
const missing = WebAssembly.Module.imports(module).filter((wanted) => wanted.module === "env");
const refuse = (name) => () => {
  throw new Error(`${name} was called, and there is no Envoy`);
};
const env = Object.fromEntries(missing.map(({ name }) => [name, refuse(name)]));
const instance = await WebAssembly.instantiate(module, { env, ...wasi.getImportObject() });
// Started as a reactor by hand: the library also brings the entry point of a filter, which would call Envoy.
const { memory, bodies, ways, run } = instance.exports;
wasi.initialize({ exports: { memory } });

function elapsed({ body, way }, times) {
  const started = hrtime.bigint();
  run(way, body, times);
  return Number(hrtime.bigint() - started);
}

// How often a cell can be gone through in a slice of time, once it is warm.
function timesFor(cell, slice) {
  for (let times = 1; ; times *= 4) {
    const taken = elapsed(cell, times);
    if (taken * 4 > slice) return Math.max(1, Math.ceil((times * slice) / taken));
  }
}

// The bodies are made at the first call, and memory grows with the first copy: neither is to be measured.
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
