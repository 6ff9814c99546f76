/**
 * Traces of two of 128 ranks of a real job. Only a sample of the events is left, so most calls lack their counterpart,
 * and calls can only be matched by names, streams and times. The trace files are not part of this repository.
 */
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { readKineto } from '../../src/audit/kineto.ts'
import { collectivesOf } from '../../src/taxes/collectives.ts'
import { stragglersOf } from '../../src/taxes/stragglers.ts'
import { TimelineBuilder } from '../../src/timeline/builder.ts'
import { Warnings } from '../../src/timeline/warnings.ts'
import { root } from '../docs/snippets.ts'

const files = [0, 1].map((rank) => join(root, `../shared/traces/kineto/sampled-rank${rank}of128.json.gz`))
const here = files.every((file) => existsSync(file))
if (!here) console.log('skipped: the real traces are not beside this checkout')

describe.skipIf(!here)('two of 128 ranks', () => {
  it('have five common calls that the sample kept on both', async () => {
    const builder = new TimelineBuilder()
    for (const file of files) await readKineto(file, builder)
    const timeline = builder.freeze()
    const warnings = new Warnings()
    const { collectives, clocks } = collectivesOf(timeline, warnings, 128)

    const matched = [...collectives].filter(({ members }) => members.length === 2)
    for (const { kind, endSkew, members } of matched)
      console.log(
        `${kind}: ends ${endSkew / 1000} us apart, waits ${members.map(({ wait }) => wait! / 1000)} us`,
      )
    // The expected values were found by hand: pairs of ends at most a millisecond apart, on streams 84 and 203.
    expect(matched.map(({ endSkew }) => endSkew / 1000)).toEqual([0, 55, 332, 8, 189])
    expect(matched.map(({ members }) => members.map(({ wait }) => wait! / 1000))).toEqual([
      [4859, 0],
      [3302, 0],
      [84, 0],
      [22328, 0],
      [1292, 0],
    ])
    expect(collectives).toHaveLength(15)
    for (const { matchedBy, complete, members } of collectives) {
      expect(complete).toBe(false)
      expect(matchedBy).toBe(members.length === 2 ? 'order on the stream' : null)
    }
    expect(clocks.map(({ aligned }) => aligned)).toEqual([false, false])
    expect(warnings.list()).toMatchObject([
      { class: 'unmatched', count: 10 },
      { class: 'missing-ranks', count: 126, message: expect.stringContaining('ranks 2-127;') as string },
    ])

    const [straggler, ...others] = stragglersOf(timeline, collectives, clocks, [])
    expect(others).toEqual([])
    // The ranks' order of arrival at the first recorded collective depends on when the ranks began recording.
    expect(straggler).toMatchObject({ rank: 1, keptWaiting: 27_006_000, late: 27_006_000, collectives: 4 })
  })
})
