/** Collectives with ranks that have no recorded work are counted, and these ranks are named. */
import { describe, expect, it } from 'vitest'
import { collectivesOf } from '../../src/taxes/collectives.ts'
import { untracedOf } from '../../src/taxes/untraced.ts'
import { Warnings } from '../../src/timeline/warnings.ts'
import { type JobOptions, jobOf, type Metadata, record } from './job.ts'

/** Removes all ranks whose index is at least `kept`. */
function untraced(layouts: JobOptions['layouts'], metadata: Metadata, kept: number) {
  const job = record(jobOf({ seed: 3, ranks: 8, layouts, rounds: 20 }), 8, { metadata, offset: () => 0n })
  const timeline = { ...job.timeline, ranks: job.timeline.ranks.slice(0, kept) }
  const { collectives } = collectivesOf(timeline, new Warnings(), 8)
  return untracedOf(
    timeline,
    collectives,
    timeline.ranks.map((_, index) => index),
    8,
  )
}

describe('ranks without recorded work', () => {
  it('are named if the traces list the groups', () => {
    const found = untraced(['world'], 'ranks', 5)
    expect(found).toMatchObject({ ranks: [5, 6, 7], unlisted: 0, complete: 0 })
    expect(found.collectives).toBeGreaterThan(0)
  })

  it('are counted if the traces state only the size of the groups', () => {
    expect(untraced(['world'], 'size', 5)).toMatchObject({ ranks: [], unlisted: 3, complete: 0 })
  })

  it('do not matter to groups without them', () => {
    expect(untraced(['world'], 'ranks', 8)).toMatchObject({ ranks: [], unlisted: 0, collectives: 0 })
    expect(untraced(['pairs'], 'ranks', 4)).toMatchObject({ ranks: [], unlisted: 0, collectives: 0 })
    expect(untraced(['world', 'pairs'], 'ranks', 6).complete).toBeGreaterThan(0)
  })
})
