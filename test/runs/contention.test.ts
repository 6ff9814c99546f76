/** Tests contention as read from the files of a Linux system, and the results if these files are missing. */
import { cpus } from 'node:os'
import { expect, it } from 'vitest'
import { measureContention } from '../../src/runs/contention.ts'

/** Returns a file's contents one after another at each read, and repeats the last contents. */
const system = (files: Readonly<Record<string, readonly string[]>>) => {
  const next: Record<string, number> = {}
  return (path: string): Promise<string | null> => {
    const contents = files[path]
    if (!contents) return Promise.resolve(null)
    const at = Math.min(next[path] ?? 0, contents.length - 1)
    next[path] = at + 1
    return Promise.resolve(contents[at])
  }
}

const stat = (ticks: string): string => `cpu  ${ticks}\ncpu0 1 2 3 4 5 6 7 8 9 10\nintr 5\n`

it('reports steal time as a share of the processor time between two readings', async () => {
  // In this example, 100 ticks pass, of which 25 are stolen. Guest time (the last two fields) is already included in user time.
  const { steal } = await measureContention(
    system({ '/proc/stat': [stat('10 0 10 60 0 0 0 5 7 7'), stat('20 0 20 105 10 0 0 30 9 9')] }),
  )
  expect(steal).toBe(0.25)
})

it('reports the mean number of runnable threads, without the reading thread', async () => {
  const queue = (running: number): string => `0.50 0.40 0.30 ${running}/311 4711\n`
  const queues = [...Array(10).fill(queue(1)), ...Array(10).fill(queue(4))] as string[]
  const { runnable } = await measureContention(system({ '/proc/loadavg': queues }))
  expect(runnable).toBe(1.5)
})

it('reports null if the system does not report contention', async () => {
  const nothing = await measureContention(system({}))
  expect(nothing).toMatchObject({ steal: null, runnable: null, cores: cpus().length })
  const odd = await measureContention(system({ '/proc/stat': ['cpu 1 2 3\n'], '/proc/loadavg': ['none\n'] }))
  expect(odd).toMatchObject({ steal: null, runnable: null })
})
