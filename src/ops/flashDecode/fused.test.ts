import { describe, expect, it } from 'vitest'

import { walk } from '../../ir/node.ts'
import { lower } from '../../ir/stages.ts'
import { flashDecodeFused } from './fused.ts'

describe('flashDecodeFused', () => {
  it('records for any world, and overlaps its copies with its products', () => {
    for (const world of [1, 2, 3, 8]) {
      const lowered = lower(flashDecodeFused.record({ world, meta: { G: 4, D: 8, BN: 4 } }))
      expect(lowered.notes).toEqual([])
      const copies = [...walk(lowered.body)].filter((node) => node.op === 'copy.async')
      expect(copies).toHaveLength(2)
    }
  })
})
