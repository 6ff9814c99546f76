/** Tests the timelines of recorded executions in a terminal, and the sentences about their origin. */
import { expect, test } from 'vitest'
import { ranksText, sourceText } from '../../src/report/runs/provenance.ts'
import { timelineRows } from '../../src/report/runs/timeline.ts'
import type { Picture, Point, RunPart } from '../../src/runs/results.ts'
import { makeBench } from './benchSample.ts'

/**
 * The time spans of an execution, for ranks with one track each. Each number is the length of a span in columns; a row
 * of 80 columns shows 800 ns.
 */
function pictureOf(ranks: readonly (readonly (readonly [RunPart, number])[])[], wall: number): Picture {
  const { ledger } = makeBench().points[0].variants[0]
  return {
    wall,
    ranks: ranks.map((pieces, rank) => {
      let now = 0
      const spans = pieces.map(([part, columns]) => {
        const from = now
        now += 10 * columns
        return { from, to: now, part, label: part }
      })
      return { rank, ledger, tracks: [{ name: 'worker 0', spans }] }
    }),
  }
}

/** The first measured point of the sample result, with the given recorded executions of `bsp` and of `fused`. */
function pointWith(bulk: Picture, fused: Picture): Point {
  const [point] = makeBench().points
  const [first, second] = point.variants
  return {
    ...point,
    variants: [
      { ...first, picture: bulk },
      { ...second, variant: 'fused', picture: fused },
    ],
  }
}

test('all variants have one time scale, and each part has its character', () => {
  const bulk = pictureOf(
    [
      [
        ['launch', 10],
        ['transfer', 20],
        ['wait', 10],
        ['useful', 40],
      ],
      [
        ['launch', 20],
        ['useful', 58],
        ['other', 2],
      ],
    ],
    800,
  )
  const fused = pictureOf(
    [
      [
        ['launch', 5],
        ['useful', 35],
      ],
      [['useful', 40]],
    ],
    400,
  )
  const [, ...rows] = timelineRows(pointWith(bulk, fused))
  const row = (...pieces: readonly (readonly [string, number])[]): string =>
    pieces.map(([character, length]) => character.repeat(length)).join('')
  expect(rows[1]).toBe(`  rank 0 ${row(['·', 10], ['▒', 20], ['░', 10], ['█', 40])}`)
  expect(rows[2]).toBe(`  rank 1 ${row(['·', 20], ['█', 58], ['-', 2])}`)
  expect(rows[4]).toBe(`  rank 0 ${row(['·', 5], ['█', 35])}`)
  expect(rows[5]).toBe(`  rank 1 ${row(['█', 40])}`)
  expect(rows[0]).toBe('  bsp: 800 ns')
  expect(rows[3]).toMatch(/^ {2}fused: 400 ns, 2\.00× as fast as bsp \(95 % interval /)
})

test('a column shows the part that most workers spend most of its time on', () => {
  const bulk = pictureOf(
    [
      [
        ['wait', 0.6],
        ['useful', 79.4],
      ],
    ],
    800,
  )
  const more = { name: 'worker 1', spans: [{ from: 0, to: 800, part: 'transfer' as const, label: '' }] }
  const two = { ...bulk, ranks: [{ ...bulk.ranks[0], tracks: [...bulk.ranks[0].tracks, more, more] }] }
  const rows = timelineRows(pointWith(bulk, two))
  expect(rows[2]).toBe(`  rank 0 ░${'█'.repeat(79)}`)
  expect(rows[4]).toBe(`  rank 0 ${'▒'.repeat(80)}`)
})

test('the origin names what the ranks share', () => {
  const threads = makeBench()
  expect(sourceText(threads)).toBe('AMD EPYC 9B14, 2 worker threads, target wasm, 2026-11-18, commit abc1234')
  expect(ranksText(threads)).toContain('threads that share one memory')
  const gpu = { ...threads.machine, processor: 'NVIDIA H200', cores: 32, threads: false }
  expect(ranksText({ ...threads, machine: gpu })).toContain(
    'The 2 ranks are virtual: they share one GPU and its memory, and each has 16 multiprocessors.',
  )
  expect(ranksText({ ...threads, machine: { ...gpu, memories: 2 } })).toBe(
    'Each of the 2 ranks has a GPU of its own.',
  )
})
