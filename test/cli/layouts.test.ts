/**
 * Tests layout options other than `shard`: an operation declares the options, and every command and every table keeps
 * their values apart.
 */
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import { benchCommand } from '../../src/cli/bench.ts'
import { layoutOf as layoutOption, operationCalled } from '../../src/cli/benchOptions.ts'
import { emitOperation } from '../../src/cli/emit.ts'
import { Progress } from '../../src/cli/progress.ts'
import { tuneCommand } from '../../src/cli/tune.ts'
import { layoutOf } from '../../src/operation/choice.ts'
import type { AnyOperation } from '../../src/operation/definition.ts'
import { normGatherGemmOperation } from '../../src/ops/normGatherGemm/index.ts'

const { points: _, recognise: __, ...definition } = normGatherGemmOperation
const usual = definition as unknown as AnyOperation
const layouts = { order: ['rows', 'columns'], padding: ['none', 'line'] }
const seen: unknown[] = []
/** An operation with two layout options, which its kernels ignore. */
const operation: AnyOperation = {
  ...usual,
  name: 'ordered',
  layouts,
  defaults: { ...usual.defaults, order: 'rows', padding: 'none' } as AnyOperation['defaults'],
  measurements: [],
  tiling(world, options) {
    const tiling = usual.tiling(world, options)
    return { ...tiling, asked: { ...tiling.asked, layout: layoutOf({ layouts }, { ...options }) } }
  },
  make(world, options, inputs) {
    seen.push(layoutOf({ layouts }, { ...options }))
    return usual.make(world, options, inputs)
  },
}

const progress = new Progress(process.stderr)
const command = {
  ...{ variant: 'bsp', target: 'wasm', ranks: 2, shape: 'M=2,N=8,K=8' },
  ...{ dtype: 'f32', seconds: 0.001, seed: 1, pack: true, skew: '0' },
}

let folder: string
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'arke-layouts-'))
  vi.stubEnv('ARKE_CACHE', folder)
})
afterAll(() => {
  vi.unstubAllEnvs()
  rmSync(folder, { recursive: true })
})

describe('a layout on the command line', () => {
  it('has a value for each option, by default those of the operation', () => {
    expect(layoutOption(operation, {})).toEqual({ order: 'rows', padding: 'none' })
    expect(layoutOption(operation, { layout: ['order=columns'] })).toEqual({
      ...{ order: 'columns', padding: 'none' },
    })
    expect(layoutOption(operationCalled('all-gather-gemm'), { shard: 'M' })).toEqual({ shard: 'M' })
    expect(layoutOption(operationCalled('all-gather-gemm'), { layout: ['shard=M'] })).toEqual({ shard: 'M' })
  })

  it.each([
    [['order=diagonal'], '--layout order=diagonal: order is rows or columns'],
    [['shard=K'], '--layout shard=K: ordered has no layout option shard; it has order, padding'],
    [['order'], '--layout order: write it as NAME=VALUE'],
  ])('%j is refused', (layout, message) => {
    expect(() => layoutOption(operation, { layout })).toThrow(message)
  })

  it('reaches the operation that is measured and emitted', async () => {
    const layout = ['order=columns', 'padding=line']
    const document = await benchCommand(operation, { ...command, layout }, '0.0.0', () => undefined, progress)
    expect(document.points[0].choices).toMatchObject({ order: 'columns', padding: 'line' })
    await emitOperation(operation, { ranks: 2, target: 'wasm', variant: 'bsp', layout })
    expect(new Set(seen.map((one) => JSON.stringify(one)))).toEqual(
      new Set(['{"order":"columns","padding":"line"}']),
    )
  })

  it('has tuned tiles of its own', async () => {
    for (const layout of [['order=rows'], ['order=columns']])
      await tuneCommand(operation, { ...command, layout }, '0.0.0', () => undefined, progress)
    const kept = JSON.parse(readFileSync(join(folder, 'tuned.json'), 'utf8')) as { readonly wasm: object }
    const settings = Object.keys(kept.wasm).map((name) => name.replace(/ 2x\d+$/, ''))
    // The values of the layout options, in the order of the options' names.
    expect(settings).toEqual(['normGatherGemm bsp columns none f32', 'normGatherGemm bsp rows none f32'])
  })
})
