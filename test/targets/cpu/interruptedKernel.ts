/**
 * A program whose kernel waits for a flag that no kernel signals, for worldStops.test.ts. The program is called as
 * `interruptedKernel.ts TARGET MODE`. The mode is `alone`, `listening`, `exiting` (calls process.exit while the kernel
 * waits) or `leaving` (opens, uses and closes a world, and does nothing else).
 */
import { flags, i32, kernel, openWorld, tensor } from '../../../src/index.ts'

const stuck = kernel('stuck', { ready: flags(), x: tensor(i32, 1) }, (t, { ready, x }) => {
  t.store(x.at([0]), t.rank)
  t.wait(ready)
})
const fill = kernel('fill', { x: tensor(i32, 1) }, (t, { x }) => t.store(x.at([0]), t.rank.add(1)))

const [target, mode] = process.argv.slice(2)
const world = await openWorld({ target, ranks: 2, workers: 1, heap: 1 << 20 })
const x = world.zeros(i32, [1])
world.launch(fill, { x }, { grid: 1 })
console.log('filled', ...(await world.read(x, 1)))
if (mode === 'leaving') await world.close()
else {
  if (mode === 'listening') process.on('SIGINT', () => {})
  await world.prepare(stuck)
  world.launch(stuck, { ready: world.flags([], { name: 'ready' }), x }, { grid: 1 })
  // A rank's awaited flag is known only once the rank waits.
  await new Promise((resolve) => setTimeout(resolve, 300))
  if (mode === 'exiting') process.exit(5)
  console.log('launched')
  try {
    await world.synchronize()
  } catch (error) {
    if (mode === 'listening') {
      console.log((error as Error).message)
      await world.close()
      process.exitCode = 3
      process.removeAllListeners('SIGINT')
    }
  }
}
