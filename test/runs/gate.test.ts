/**
 * Tests the division of executions behind gates into batches. Each batch begins with launches of the gate's kernel
 * `hold`.
 */
import { expect, it } from 'vitest'
import { Gate, type Timed } from '../../src/runs/gate.ts'
import { sharedOut } from '../../src/world/machine.ts'
import { h200 } from '../../src/targets/cuda/machines.ts'
import type { Stream, World } from '../../src/world/world.ts'

/** The names of the launched kernels, in order, on a world that does not execute them. */
async function launchedFor(executions: (launch: (name: string) => void) => readonly Timed[]) {
  const launched: string[] = []
  const event = { elapsed: () => 1 }
  const stream = { id: 1, record: () => event, synchronize: () => Promise.resolve() } as unknown as Stream
  const world = {
    ranks: 1,
    localRanks: [0],
    machine: sharedOut(h200, 1),
    zeros: () => ({}),
    flags: () => ({}),
    write: () => undefined,
    launch: ({ name }: { name: string }) => void launched.push(name),
  } as unknown as World
  const laps = await new Gate(world, stream, () => 0, true).time(
    executions((name) => void launched.push(name)),
  )
  return { laps, batches: launched.join(' ').split('hold').slice(1) }
}

it('a graph has its own batch, because running kernels are slower while a graph is pending', async () => {
  const { laps, batches } = await launchedFor((launch) =>
    ['a', 'graph', 'graph', 'b', 'c', 'graph', 'd'].map((name) => ({
      launches: 1,
      isGraph: name === 'graph',
      launch: () => launch(name),
    })),
  )
  const executed = batches.map((batch) => batch.split(' ').filter((name) => name !== '' && name !== 'gate'))
  expect(executed).toEqual([['a'], ['graph'], ['graph'], ['b', 'c'], ['graph'], ['d']])
  expect(laps).toHaveLength(7)
})

it('a batch has no more launches than fit a queue', async () => {
  const { batches } = await launchedFor((launch) =>
    Array.from({ length: 20 }, () => ({ launches: 4, launch: () => launch('x') })),
  )
  expect(batches.map((batch) => batch.split('x').length - 1)).toEqual([4, 4, 4, 4, 4])
})

it('an execution with too many launches for a queue is rejected', async () => {
  await expect(launchedFor(() => [{ launches: 100, launch: () => undefined }])).rejects.toThrow(
    'an execution of 100 launches does not fit the queues',
  )
})
