/**
 * Opens and closes many worlds and prints the memory and thread use: `npx tsx test/world/many.ts [worlds] [target]`.
 * The program exits with an error if the memory or the number of threads grows.
 */
import { readdirSync, readFileSync } from 'node:fs'
import { f32, kernel, openWorld, tensor } from '../../src/index.ts'

const [worlds = 1000, target = 'wasm'] = [Number(process.argv[2] ?? 1000), process.argv[3] ?? 'wasm']

const fill = kernel('fill', { x: tensor(f32, 1) }, (t, { x }) => {
  t.store(x.at([0]), t.rank.to(f32))
})

/** Resident memory in megabytes, and the number of threads. */
function state(): { readonly megabytes: number; readonly threads: number } {
  const pages = Number(readFileSync('/proc/self/statm', 'utf8').split(' ')[1])
  return { megabytes: Math.round((pages * 4096) / 1e6), threads: readdirSync('/proc/self/task').length }
}

const sizes = [undefined, 1 << 20, 1 << 24, 1 << 26]
let settled: ReturnType<typeof state> | undefined
const start = performance.now()
for (let n = 0; n < worlds; n++) {
  const world = await openWorld({ target, ranks: 1 + (n % 2), workers: 1, heap: sizes[n % sizes.length] })
  const x = world.zeros(f32, [100_000])
  world.launch(fill, { x }, { grid: 1 })
  if ((await world.read(x, world.ranks - 1))[0] !== world.ranks - 1) throw new Error('a wrong result')
  await world.close()
  if (n === Math.floor(worlds / 5)) settled = state()
  if (n % Math.ceil(worlds / 10) === 0) console.log(n, state(), `${Math.round(performance.now() - start)} ms`)
}
const end = state()
console.log('end', end, `${Math.round(performance.now() - start)} ms`)
if (settled && (end.threads > settled.threads + 2 || end.megabytes > 1.5 * settled.megabytes + 100))
  throw new Error(`${JSON.stringify(settled)} became ${JSON.stringify(end)}`)
