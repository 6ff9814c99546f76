/** Uses worlds, launches and their results. */
import { f32, launchOf, openWorld, scenario, type World } from 'arke'
import { announce, product } from './kernels.js'

export async function open(ranks: number, target = 'check') {
  const world = await openWorld({ ranks, target })
  return { world, x: world.zeros(f32, [2, 2], { name: 'x' }), ready: world.flags([], { name: 'ready' }) }
}

export const launchesOf = async (ranks: number) => {
  const { x, ready } = await open(ranks)
  return [launchOf(announce, { x, ready }, { grid: 1 })]
}

export const streamOf = (world: World) => {
  const stream = world.stream()
  return { stream, event: stream.record() }
}
export const recordingOf = async (ranks: number) => (await openWorld({ ranks, record: true })).timeline()
export const ranksOf = (timeline: Awaited<ReturnType<typeof recordingOf>>) =>
  timeline.ranks.map(({ events, tracks }) => ({ events, tracks }))
export const packed = (world: World) => world.pack(world.zeros(f32, [16, 16]))

export const announced = scenario('announce', { ranks: [1, 2] }, async (world) => {
  const x = world.zeros(f32, [2, 2], { name: 'x' })
  world.launch(announce, { x, ready: world.flags() }, { grid: 1 })
  return world.read(x, 0)
})
export const scenarios = [
  announced,
  scenario('multiply', { ranks: 1, residency: 2 }, async (world) => {
    const [a, b] = [world.zeros('bf16', [16, 16]), world.zeros('bf16', [16, 16])]
    const c = world.zeros(f32, [16, 16])
    world.launch(product, { a, b, c }, { grid: 1, meta: { BM: 16 } })
    return world.read(c, 0)
  }),
]
