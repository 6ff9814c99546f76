/** Tests when the watchdog of a world reports a stall, and when it stops the world. */
import { afterEach, beforeEach, expect, it, vi } from 'vitest'
import { Watchdog, type Activity } from '../../src/world/watchdog.ts'

const limits = { waiting: 10_000, computing: Infinity, unknown: 60_000 }

beforeEach(() => void vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval', 'performance'] }))
afterEach(() => void vi.useRealTimers())

/**
 * Runs the watchdog for `time` milliseconds on a launch. The programs of the launch are in the state (such as waiting)
 * that `activity` returns.
 */
function watch(time: number, activity: () => Activity, ended = (): boolean => false): string[] {
  const events: string[] = []
  const watchdog = new Watchdog(limits, {
    pending: () => !ended(),
    progress: () => Number(ended()),
    activity,
    stalled: (waited, limit) => void events.push(`stalled ${waited} of ${limit}`),
    expired: (limit) => void events.push(`expired ${limit}`),
  })
  watchdog.launched()
  vi.advanceTimersByTime(time)
  watchdog.close()
  return events
}

it('reports a stall after three seconds, and stops the world at the limit', () => {
  expect(watch(10_250, () => 'waiting')).toEqual(['stalled 3000 of 10000', 'expired 10000'])
})

it('never stops a program that computes', () => {
  expect(watch(3_600_000, () => 'computing')).toEqual([])
})

it('stops a world of which it knows nothing at the longer limit', () => {
  expect(watch(60_000, () => 'unknown')).toEqual([])
  expect(watch(60_250, () => 'unknown')).toEqual(['expired 60000'])
})

it('does not stop a world whose launch ends while the watchdog checks the activity', () => {
  const end = performance.now() + 600_000
  let isEnded = false
  const activity = (): Activity => {
    isEnded ||= performance.now() >= end
    return isEnded ? 'unknown' : 'computing'
  }
  expect(watch(700_000, activity, () => isEnded)).toEqual([])
})
