/** Steps as windows of device time: annotated steps, and detected periods if nothing is annotated. */
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { stepsOf } from '../../src/taxes/steps.ts'
import { TimelineBuilder } from '../../src/timeline/builder.ts'
import { Kind, type Timeline } from '../../src/timeline/timeline.ts'
import { Warnings } from '../../src/timeline/warnings.ts'

const steps = (timeline: Timeline, warnings = new Warnings()) =>
  stepsOf(timeline.ranks[0], timeline.names, warnings)

describe('named steps', () => {
  /** Steps of 100 ns on the host, with kernels of 20 ns that run `late` ns after they are enqueued. */
  function named(kernels: readonly number[], late: number): Timeline {
    const builder = new TimelineBuilder()
    const rank = builder.rank(0)
    const thread = rank.track('thread', 1, 1)
    const call = builder.intern('cudaLaunchKernel')
    // Another event begins at 0, so that the times in the timeline equal the times written here.
    rank.add(Kind.operator, thread, call, 0, 1)
    kernels.forEach((count, i) => {
      rank.add(Kind.step, thread, builder.intern(`ProfilerStep#${i + 7}`), i * 100, 99)
      for (let k = 0; k < count; k++) {
        const launch = rank.add(Kind.launch, thread, call, i * 100 + 5 + k * 20, 4)
        const work = rank.add(Kind.kernel, rank.track('stream', 0, 7), call, i * 100 + 5 + k * 20 + late, 20)
        rank.linkLaunch(work, launch)
      }
    })
    return builder.freeze()
  }

  it('reach from their first device work to that of the next; the last to its last work', () => {
    expect(steps(named([4, 4, 3], 250)).steps).toEqual([
      { name: 'ProfilerStep#7', number: 7, from: 255, to: 355 },
      { name: 'ProfilerStep#8', number: 8, from: 355, to: 455 },
      { name: 'ProfilerStep#9', number: 9, from: 455, to: 515 },
    ])
  })
  it('without device work are left out, with a warning', () => {
    const warnings = new Warnings()
    const { steps: found } = steps(named([2, 0, 2], 10), warnings)
    expect(found.map(({ number, from, to }) => [number, from, to])).toEqual([
      [7, 15, 215],
      [9, 215, 255],
    ])
    expect(warnings.list()).toMatchObject([{ class: 'steps', count: 1 }])
    expect(warnings.list()[0].message).toContain('ProfilerStep#8')
  })
})

describe('a trace that names no steps', () => {
  function kernels(names: readonly string[]): Timeline {
    const builder = new TimelineBuilder()
    const rank = builder.rank(0)
    names.forEach((name, i) => {
      rank.add(Kind.kernel, rank.track('stream', 0, 7), builder.intern(name), i * 10, 8)
    })
    return builder.freeze()
  }
  const step = (layers: number): string[] => [
    'embedding',
    ...Array.from({ length: layers }, () => ['norm', 'gemm', 'attention', 'gemm', 'silu']).flat(),
    'head',
    'loss',
  ]

  it('is cut where the whole sequence repeats, not where layers do', () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 12 }), fc.integer({ min: 3, max: 6 }), (layers, times) => {
        const one = step(layers)
        const { steps: found, period } = steps(kernels(Array.from({ length: times }, () => one).flat()))
        expect(period).toBe(one.length)
        expect(found).toHaveLength(times)
        expect(found[0]).toEqual({
          name: 'period 0',
          number: 0,
          from: 0,
          to: one.length * 10,
        })
        expect(found[times - 1].to).toBe(times * one.length * 10 - 2)
      }),
      { seed: 20261 },
    )
  })
  it('has no steps when only layers repeat', () => {
    expect(steps(kernels(step(24)))).toEqual({ steps: [], period: null })
  })
  it('has no steps when a sequence occurs only twice or is too short to be a step', () => {
    expect(steps(kernels([...step(4), ...step(4)]))).toEqual({ steps: [], period: null })
    for (const short of [['gemm'], ['gemm', 'norm'], ['gemm', 'norm', 'silu']])
      expect(steps(kernels(Array.from({ length: 40 }, () => short).flat()))).toEqual({
        steps: [],
        period: null,
      })
    const least = ['gemm', 'norm', 'silu', 'add']
    expect(steps(kernels(Array.from({ length: 3 }, () => least).flat())).period).toBe(4)
  })
  it('is searched in bounded time, even with very many kernel names that each occur a few times', () => {
    const names = Array.from({ length: 60_000 }, (_, i) => `kernel ${i}`)
    const thrice = [...names, 'between', ...names, 'again', 'between', ...names]
    expect(steps(kernels(thrice))).toEqual({ steps: [], period: null })
  })
  it('has no steps when nothing repeats', () => {
    expect(steps(kernels(Array.from({ length: 50 }, (_, i) => `kernel ${i}`))).steps).toEqual([])
    expect(steps(kernels([])).steps).toEqual([])
  })
  it('is cut although a few kernels differ from one period to the next', () => {
    const noisy = Array.from({ length: 5 }, () => step(8)).flat()
    noisy[60] = 'odd'
    expect(steps(kernels(noisy)).period).toBe(step(8).length)
  })
})
