/** A program with a kernel that never ends, to be interrupted by worldFaults.test.ts. */
import { i32, kernel, tensor } from '../../../src/index.ts'
import { body, openHandmade } from './handmade.ts'

const endless = kernel('endless', { x: tensor(i32, 1) }, (t, { x }) => t.store(x.at([0]), 1))
body(endless, 't.words[t.pointer(0, t.rank) >>> 2] = 1; while (!t.aborted()) t.sleep(1); return -1')

const world = openHandmade({ ranks: 2 })
const x = world.zeros(i32, [1])
const listening = process.argv[2] === 'listening'
if (listening) process.on('SIGINT', () => {})
world.launch(endless, { x }, { grid: 1 })
console.log('launched')
try {
  await world.synchronize()
} catch (error) {
  if (listening) {
    console.log((error as Error).message.split('\n')[0])
    await world.close()
    process.exit(3)
  }
}
