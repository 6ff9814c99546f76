/** Collectives that are stored in columns are read back unchanged. */
import { expect, it } from 'vitest'
import type { Collective } from '../../src/taxes/collective.ts'
import { Collectives } from '../../src/taxes/collectiveTable.ts'

const alone: Collective = {
  kind: null,
  library: null,
  group: null,
  groupDescription: null,
  groupSize: null,
  matchedBy: null,
  complete: false,
  members: [{ rank: 3, event: 7, wait: null, transfer: null }],
  last: null,
  endSkew: 0,
}
const shared: Collective = {
  kind: 'allReduce',
  library: 'nccl',
  group: '0',
  groupDescription: 'tensor parallel',
  groupSize: 2,
  matchedBy: 'group and order',
  complete: true,
  members: [
    { rank: 0, event: 1, wait: 5, transfer: 10 },
    { rank: 2, event: 4, wait: 0, transfer: 11 },
  ],
  last: 2,
  endSkew: 1,
}

it('collectives are read back unchanged, unknown values as null', () => {
  expect([...Collectives.from([alone, shared])]).toEqual([alone, shared])
  expect([...Collectives.from([])]).toEqual([])
})

it('some of them are chosen, in any order, with their members', () => {
  const all = Collectives.from([alone, shared, alone])
  expect([...all.select(Uint32Array.of(1, 0))]).toEqual([shared, alone])
  expect([...all.select(Uint32Array.of())]).toEqual([])
})
