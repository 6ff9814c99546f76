/**
 * Real traces: locality and savings stay within the limits of the ledger and the shapes, and the fusion candidates are
 * the chains of kernels that a person would see. The trace files are not part of this repository.
 */
import { existsSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { readKinetoFile } from '../../src/audit/kineto.ts'
import { type Candidate, Candidates } from '../../src/taxes/candidates.ts'
import { collectivesOf } from '../../src/taxes/collectives.ts'
import { type Locality, localityIn, localityOf } from '../../src/taxes/locality.ts'
import { communicationTimes, partitionOf, recordedSpan } from '../../src/taxes/partition.ts'
import type { Partition } from '../../src/taxes/ledger.ts'
import { recognisers } from '../../src/ops/operations.ts'
import { total } from '../../src/timeline/intervals.ts'
import { type Warning, Warnings } from '../../src/timeline/warnings.ts'
import { root } from '../docs/snippets.ts'

const folder = join(root, '../shared/traces/kineto')
const here = existsSync(folder)
if (!here) console.log('skipped: the real traces are not beside this checkout')
const files = here ? readdirSync(folder).filter((name) => name.endsWith('.json.gz')) : []

interface Found {
  readonly candidates: readonly Candidate[]
  readonly partition: Partition
  readonly locality: Locality | null
  readonly warnings: readonly Warning[]
}

async function find(name: string): Promise<Found> {
  const { timeline } = await readKinetoFile(join(folder, name))
  const { collectives } = collectivesOf(timeline, new Warnings())
  const times = communicationTimes(timeline, collectives)
  const warnings = new Warnings()
  const partitions = timeline.ranks.map((rank, i) =>
    partitionOf(rank, timeline.names, recordedSpan(rank) ?? [0, 0], times[i]),
  )
  const localities = timeline.ranks.map((rank) => localityOf(rank, timeline.names, warnings))
  const candidates = new Candidates(timeline, collectives, partitions, recognisers)
  localities.forEach((locality, index) => [...candidates.addRank(index, locality)])
  return {
    candidates: candidates.list(),
    partition: partitions[0],
    locality: localities[0],
    warnings: warnings.list(),
  }
}

describe.skipIf(!here)('real traces', () => {
  it.each(files)('%s: savings are within the taxes', async (name) => {
    const { candidates, partition, locality } = await find(name)
    const { processors, from, to } = partition
    const [{ parts }] = processors
    const launch = total(parts.dispatch) + total(parts.gap)
    const exposed = total(parts.wait) + total(parts.transfer) + total(parts.communication)
    const bytes = locality ? localityIn(locality, from, to).bytes : 0
    for (const kind of ['small-kernels', 'compute-collective-compute', 'producer-consumer']) {
      const own = candidates.filter((one) => one.kind === kind)
      const sum = (of: (one: Candidate) => number | null): number =>
        own.reduce((all, one) => all + (of(one) ?? 0), 0)
      expect(sum(({ savings }) => savings.launch)).toBeLessThanOrEqual(launch)
      expect(
        sum(({ savings }) => (savings.wait ?? 0) + (savings.transfer ?? 0) + savings.communication),
      ).toBeLessThanOrEqual(exposed)
      expect(sum(({ localityBytes }) => localityBytes)).toBeLessThanOrEqual(bytes)
    }
  })

  it('the A100 trace has no shapes; its gradients are reduced between kernels', async () => {
    const { candidates, locality, warnings } = await find('a100-rank0of2-nccl-metadata.json.gz')
    expect(locality).toBeNull()
    expect(warnings.map((one) => one.class)).toEqual(['shapes'])
    expect(candidates[0]).toMatchObject({
      kind: 'compute-collective-compute',
      chain: ['aten::mul', 'allReduce', 'aten::convolution_backward'],
      savings: { wait: null, transfer: null, locality: null },
      operation: null,
    })
  })

  it('the H100 trace is one GPU with long kernels: no collective, and norms that pass through memory', async () => {
    const { candidates, locality, partition } = await find('h100-qwen1.5-0.5b.json.gz')
    expect(candidates.some(({ kind }) => kind === 'compute-collective-compute')).toBe(false)
    expect(candidates[0]).toMatchObject({
      kind: 'producer-consumer',
      chain: ['aten::mm', 'aten::add', 'aten::copy_', 'aten::pow', 'aten::mean'],
      count: 48,
    })
    if (!locality) throw new Error('it has shapes')
    const { bytes, time } = localityIn(locality, partition.from, partition.to)
    // The trace has 24 layers with two norms of 18 MB each; the intermediates have 37 MB, 18 MB and less.
    expect(bytes).toBeGreaterThan(5e9)
    expect(time?.high).toBe(Math.round(bytes / 3350))
    expect(time?.high).toBeLessThan(total(partition.processors[0].parts.compute))
  })

  it('the B200 trace has 36 layers of small kernels around two all-reduces each, and one before them', async () => {
    const { candidates } = await find('b200-rank0of8-eager.json.gz')
    const chain = candidates.find(({ kind }) => kind === 'compute-collective-compute')
    expect(chain).toMatchObject({ chain: ['aten::copy_', 'allReduce', 'aten::copy_'], count: 73 })
    expect(candidates[0].kind).toBe('small-kernels')
    expect(candidates[0].count).toBeGreaterThanOrEqual(35)
    expect(candidates[0].chain).toContain('_C::fused_add_rms_norm')
  })
})
