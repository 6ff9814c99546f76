/**
 * Measures how much other programs use the processors. The measurement reads the steal time and the run queue over a
 * short interval in which this process sleeps. Linux reports steal time and run queue in /proc. On other systems, steal
 * time and run queue are unknown (null) and are never guessed.
 */
import { readFile } from 'node:fs/promises'
import { cpus } from 'node:os'
import { setTimeout } from 'node:timers/promises'
import type { Contention } from './results.ts'

/**
 * The contention is sampled 20 times at intervals of 25 ms, which takes half a second in total. An interval shorter
 * than a clock tick of /proc/stat (10 ms) would show nothing.
 */
const samples = 20
const pause = 25

/** Returns the contents of a system file, or null if the file does not exist. */
export type ReadText = (path: string) => Promise<string | null>

const readText: ReadText = (path) => readFile(path, 'utf8').catch(() => null)

export async function measureContention(read: ReadText = readText): Promise<Contention> {
  const start = performance.now()
  const before = processorTime(await read('/proc/stat'))
  const queues: (number | null)[] = []
  for (let n = 0; n < samples; n++) {
    await setTimeout(pause)
    queues.push(runnableThreads(await read('/proc/loadavg')))
  }
  const after = processorTime(await read('/proc/stat'))
  const known = queues.filter((queue) => queue !== null)
  return {
    interval: (performance.now() - start) * 1e6,
    cores: cpus().length,
    steal: before && after && after.all > before.all ? stealShare(before, after) : null,
    runnable: known.length === 0 ? null : known.reduce((sum, queue) => sum + queue, 0) / known.length,
  }
}

interface ProcessorTime {
  readonly all: number
  readonly steal: number
}

const stealShare = (before: ProcessorTime, after: ProcessorTime): number =>
  (after.steal - before.steal) / (after.all - before.all)

/**
 * The clock ticks of all processors since the system started: user, nice, system, idle, iowait, irq, softirq, steal.
 */
function processorTime(stat: string | null): ProcessorTime | null {
  const ticks = /^cpu +(.*)$/m
    .exec(stat ?? '')?.[1]
    .split(' ')
    .slice(0, 8)
    .map(Number)
  if (ticks === undefined || ticks.length < 8 || ticks.some(Number.isNaN)) return null
  return { all: ticks.reduce((sum, one) => sum + one, 0), steal: ticks[7] }
}

/**
 * The fourth field of /proc/loadavg is RUNNABLE/ALL. The thread that reads /proc/loadavg is itself runnable, and is not
 * counted.
 */
function runnableThreads(loadavg: string | null): number | null {
  const running = /^\S+ \S+ \S+ (\d+)\/\d+/.exec(loadavg ?? '')?.[1]
  return running === undefined ? null : Math.max(Number(running) - 1, 0)
}
