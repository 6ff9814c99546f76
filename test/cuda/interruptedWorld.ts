/**
 * A program on the fake CUDA driver whose last kernel waits for a flag that nobody signals, for interrupts.test.ts.
 * Usage: `interruptedWorld.ts MODE`. The mode is `alone`, `listening`, `exiting` (calls process.exit while the kernel
 * waits), `graph` (like `listening`, but the kernel is in a graph) or `closed` (listens for nothing and has closed its
 * world).
 */
import { writeSync } from 'node:fs'
import { flags, i32, kernel, tensor } from '../../src/index.ts'
import { Device } from '../../src/targets/cuda/runtime.ts'
import { CudaWorld } from '../../src/targets/cuda/world.ts'
import { fakeDriver, words } from './fakeDriver.ts'

const fill = kernel('fill', { x: tensor(i32, 1) }, (t, { x }) => t.store(x.at([0]), t.rank.add(1)))
const stuck = kernel('stuck', { ready: flags(), x: tensor(i32, 1) }, (t, { ready, x }) => {
  t.wait(ready.on(0))
  t.store(x.at([0]), 7)
})

const fake = fakeDriver({
  kernels: {
    fill: { params: 1, run: (launch) => words(launch.pointer(0), 1).fill(5).length > 0 },
    stuck: {
      params: 7,
      // The last parameter is the control block: the abort word, and a wait record after four words.
      run: (launch) => {
        const control = words(launch.pointer(6), 8)
        if (control[0] === 0) return false
        writeSync(1, 'aborted\n')
        control.set([1, 0, 0, 1], 4)
        return true
      },
    },
  },
})
const platform = { devices: [new Device(fake.driver, 0)], compile: () => new Uint8Array() }
const world = new CudaWorld(platform, { ranks: 2, heap: 1 << 16 })
const [x, ready] = [world.zeros(i32, [1]), world.flags([], { name: 'ready' })]
const mode = process.argv[2]
const listens = mode === 'listening' || mode === 'graph'
if (listens) for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => {})
world.launch(fill, { x }, { grid: 1 })
await world.synchronize()
if (mode === 'closed') {
  await world.close()
  console.log('launched')
  await new Promise((resolve) => setTimeout(resolve, 20_000))
}
if (mode === 'graph') world.graph(() => world.launch(stuck, { ready, x }, { grid: 1 })).launch()
else world.launch(stuck, { ready, x }, { grid: 1 })
if (mode === 'exiting') process.exit(5)
console.log('launched')
try {
  await world.synchronize()
} catch (error) {
  if (listens) {
    console.log((error as Error).message)
    await world.reset()
    console.log('kept', ...(await world.read(x, 0)))
    await world.close()
    process.exit(3)
  }
}
