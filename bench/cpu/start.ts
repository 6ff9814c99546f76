/**
 * Measures the time from the start of a process to the first result of a small matrix product (64x64x64, f32) on the
 * wasm target, with the built package:
 *
 *   npm run build && npx tsx bench/cpu/start.ts [--rounds N] [--json]
 *
 * For comparison, the benchmark measures the time in which Node starts and ends an empty program. The measured process
 * also reports how much time each of its steps takes.
 */
import { spawn } from 'node:child_process'
import { existsSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { figure, present } from '../measure.ts'

const at = process.argv.indexOf('--rounds')
const rounds = at < 0 ? 11 : Number(process.argv[at + 1])
const built = new URL('../../dist/index.js', import.meta.url)
if (!existsSync(fileURLToPath(built))) {
  console.error('dist/ is missing: run npm run build first')
  process.exit(1)
}

/** A program as a user would write it. */
const program = `
  const started = performance.now()
  const { ceilDiv, f32, kernel, openWorld, tensor } = await import(${JSON.stringify(built.href)})
  const imported = performance.now()
  const [BM, BN, BK] = [64, 64, 64]
  const product = kernel('product', { a: tensor(f32, 2), b: tensor(f32, 2), c: tensor(f32, 2) }, (t, { a, b, c }) => {
    const [as, bs] = [t.shared(f32, [BM, BK]), t.shared(f32, [BK, BN])]
    t.persistent(c.tiles([BM, BN]), (ci, [i, j]) => {
      const sum = t.pipeline([ceilDiv(a.dim(1), BK)], t.zeros(f32, [BM, BN]), ([k], sum) => {
        t.copy(a.tile([i, k], [BM, BK]), as)
        t.copy(b.tile([k, j], [BK, BN]), bs)
        return t.dot(as, bs, sum)
      })
      t.copy(sum, ci)
    })
  })
  const world = await openWorld({ target: 'wasm', ranks: 1 })
  const opened = performance.now()
  const [a, b, c] = [world.full(f32, [64, 64], 1), world.full(f32, [64, 64], 2), world.empty(f32, [64, 64])]
  world.launch(product, { a, b, c }, { grid: 'resident' })
  const launched = performance.now()
  const result = await world.read(c, 0)
  if (!result.every((value) => value === 128)) throw new Error('the product is wrong')
  const ended = performance.now()
  const parts = [started, imported - started, opened - imported, launched - opened, ended - launched]
  process.stdout.write(JSON.stringify(parts) + '\\n')
  await world.close()`

/**
 * Runs a program in a new process. The result is the time in milliseconds until the program's first output (or its
 * end), and the output.
 */
function run(text: string): Promise<{ readonly milliseconds: number; readonly said: string }> {
  return new Promise((resolve, reject) => {
    const start = performance.now()
    const child = spawn(process.execPath, ['--input-type=module', '--eval', text], {
      stdio: ['ignore', 'pipe', 'inherit'],
    })
    let first: { readonly milliseconds: number; readonly said: string } | undefined
    child.stdout.on('data', (data: Buffer) => {
      first ??= { milliseconds: performance.now() - start, said: data.toString() }
    })
    child.on('exit', (code) => {
      if (code !== 0) reject(new Error(`the process ended with code ${code}`))
      else resolve(first ?? { milliseconds: performance.now() - start, said: '' })
    })
  })
}

const names = [
  'Node until the first line runs',
  'import of the package',
  'openWorld',
  'record, lower, launch',
  'thread, compile, result',
]
const [total, nothing]: number[][] = [[], []]
const parts = names.map((): number[] => [])
await run(program)
for (let round = 0; round < rounds; round++) {
  const { milliseconds, said } = await run(program)
  total.push(milliseconds)
  ;(JSON.parse(said) as number[]).forEach((time, part) => parts[part].push(time))
  nothing.push((await run('')).milliseconds)
}
present('First result from process start, wasm', [
  figure('64x64x64 product, first result', 'ms', total, {
    text: '< 400',
    reached: (median) => median < 400,
  }),
  ...names.map((name, part) => figure(`  ${name}`, 'ms', parts[part])),
  figure('Node alone, start to end', 'ms', nothing),
])
