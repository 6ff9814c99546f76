/** Tests the machine record of a world: every target fills it in, and rules read it instead of the name of a target. */
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import ts from 'typescript'
import { describe, expect, it } from 'vitest'
import { variantOf } from '../../src/operation/choice.ts'
import { operations } from '../../src/ops/operations.ts'
import { nativeStatus } from '../../src/targets/native/world.ts'
import { Device } from '../../src/targets/cuda/runtime.ts'
import { CudaWorld } from '../../src/targets/cuda/world.ts'
import {
  beyondCaches,
  maySpin,
  oneEach,
  residentPrograms,
  sharedOut,
  type Machine,
} from '../../src/world/machine.ts'
import { h200 } from '../../src/targets/cuda/machines.ts'
import { cpuMachine } from '../../src/world/machines.ts'
import { openWorld, worlds } from '../../src/world/open.ts'
import { fakeDriver } from '../cuda/fakeDriver.ts'

/**
 * Expects that every rank has processors and is listed in exactly one memory, and that caches list only existing ranks.
 */
function expectWhole({ processors, memories, caches }: Machine, ranks: number): void {
  const all = Array.from({ length: ranks }, (_, rank) => rank)
  expect(processors).toHaveLength(ranks)
  for (const count of processors) expect(count).toBeGreaterThan(0)
  expect(memories.flat().sort((a, b) => a - b)).toEqual(all)
  for (const { bytes, ranks: sharing = [] } of caches) {
    expect(bytes).toBeGreaterThan(0)
    for (const rank of sharing) expect(all).toContain(rank)
  }
}

describe('the machine of a world', () => {
  const here = ['check', 'wasm', ...(nativeStatus().usable ? ['native'] : [])]
  it.each(here)('on %s', async (target) => {
    const world = await openWorld({ target, ranks: 3, workers: 1, heap: 1 << 20, residency: 2 })
    const { machine } = world
    await world.close()
    expectWhole(machine, 3)
    expect(machine).toMatchObject({ family: target, name: target, memories: [[0, 1, 2]] })
    expect(machine.processors).toEqual(Array(3).fill(target === 'check' ? 2 : 1))
  })

  it('on a GPU that ranks share contains the facts from the driver', async () => {
    const device = new Device(fakeDriver().driver, 0)
    const world = new CudaWorld(
      { devices: [device], compile: () => new Uint8Array() },
      { ranks: 8, heap: 1 << 26 },
    )
    const { machine } = world
    await world.close()
    expectWhole(machine, 8)
    // There are no measurements for a device with this name.
    const { bandwidth, programBandwidth, flops, link, launchCost, ...stated } = sharedOut(
      { ...h200, name: 'fake' },
      8,
      16,
    )
    expect(machine).toEqual(stated)
    expect([bandwidth, programBandwidth, flops, link, launchCost].every((measured) => measured! > 0)).toBe(
      true,
    )
  })

  it('limits resident programs, with or without a world', async () => {
    const [cpu, gpu] = [cpuMachine('wasm', 3, { workers: 2 }), sharedOut(h200, 8)]
    expect([residentPrograms(cpu, 2), residentPrograms(cpu, 2, 4)]).toEqual([2, 2])
    expect([residentPrograms(gpu, 7), residentPrograms(gpu, 7, 4)]).toEqual([16, 64])
    expect(residentPrograms(oneEach(h200, 2), 1)).toBe(132)
    const world = await openWorld({ target: 'wasm', ranks: 3, workers: 2, heap: 1 << 20 })
    await world.close()
    expect(residentPrograms(world.machine, 2)).toBe(residentPrograms(cpu, 2))
  })

  it('says whether threads may spin, and how much memory exceeds its caches', () => {
    expect([2, 3].map((cores) => maySpin(cpuMachine('wasm', 3), cores))).toEqual([false, true])
    expect(maySpin(sharedOut(h200, 8), 2)).toBe(true)
    expect(beyondCaches(sharedOut(h200, 8))).toBeGreaterThan(4 * h200.cacheBytes)
    expect(beyondCaches(cpuMachine('native', 2, { caches: [{ level: 3, bytes: 2 ** 25 }] }))).toBe(
      5 * 2 ** 25,
    )
    expect(beyondCaches(cpuMachine('native', 2))).toBeGreaterThan(0)
  })

  it('may be described without a world', () => {
    expectWhole(sharedOut(h200, 8), 8)
    expectWhole(oneEach(h200, 8), 8)
    expect(sharedOut(h200, 8)).toMatchObject({
      processors: Array(8).fill(16),
      memories: [[0, 1, 2, 3, 4, 5, 6, 7]],
    })
    expect(oneEach(h200, 2)).toMatchObject({ processors: [132, 132], memories: [[0], [1]] })
  })
})

describe.each(operations)('$title on a machine that is only described', (definition) => {
  it.each([
    ['shared out', sharedOut(h200, 8)],
    ['one each', oneEach(h200, 8)],
    ['a GPU with 64 KiB of scratch memory', sharedOut({ ...h200, sharedBytes: 64 * 1024 }, 8)],
    ['a GPU with 99 KiB of scratch memory', oneEach({ ...h200, sharedBytes: 99 * 1024 }, 8)],
    ['a GPU with 304 processors and waves of 64', oneEach({ ...h200, processors: 304, warp: 64 }, 8)],
    ['a CPU', cpuMachine('native', 8)],
  ])('%s: has tiles that fit, candidates and a variant', (_, machine) => {
    const world = { ranks: 8, machine }
    const options = { ...definition.defaults, dtype: 'bf16' } as const
    const { fallback, isLegal, candidates } = definition.tiling(world, options)
    expect(isLegal(fallback())).toBe(true)
    expect(candidates().length).toBeGreaterThan(1)
    for (const shape of Object.values(definition.points.usual))
      for (const dtype of ['f16', 'bf16'] as const) {
        const usual = definition.tiling(world, { ...options, dtype, shape })
        expect([shape, dtype, usual.isLegal(usual.fallback())]).toEqual([shape, dtype, true])
      }
    const { variant, reason } = variantOf(definition, world, { ...options, variant: 'auto' })
    expect(definition.variants).toContain(variant)
    expect(reason).toBeTypeOf('string')
  })

  it('does not apply measurements of ranks that share a memory to ranks with links', () => {
    const options = { ...definition.defaults, dtype: 'bf16' } as const
    const world = { ranks: 8, machine: oneEach(h200, 8) }
    const { reason } = variantOf(definition, world, { ...options, variant: 'auto' })
    expect(reason).toContain('nothing was measured')
    expect(reason).toContain('with links between ranks')
  })

  it('depends on its processors and its scratch memory', () => {
    const options = { ...definition.defaults, dtype: 'bf16' } as const
    const tilesOn = (machine: Machine) =>
      JSON.stringify(definition.tiling({ ranks: 1, machine }, options).candidates())
    const whole = tilesOn(sharedOut(h200, 1))
    expect(tilesOn(sharedOut({ ...h200, sharedBytes: 100 * 1024 }, 1))).not.toBe(whole)
    expect(tilesOn(sharedOut(h200, 1, 11))).not.toBe(whole)
  })
})

/**
 * The occurrences of target names in a source file, except in data that says where something was measured, and
 * comparisons of variables that hold such a name.
 */
function namedTargets(path: string): string[] {
  const source = ts.createSourceFile(path, readFileSync(path, 'utf8'), ts.ScriptTarget.Latest, true)
  const found: string[] = []
  const isName = (node: ts.Node): boolean =>
    (ts.isPropertyAccessExpression(node) && ['target', 'family'].includes(node.name.text)) ||
    (ts.isIdentifier(node) && ['target', 'family'].includes(node.text))
  const equality = [
    ts.SyntaxKind.EqualsEqualsEqualsToken,
    ts.SyntaxKind.ExclamationEqualsEqualsToken,
    ts.SyntaxKind.EqualsEqualsToken,
    ts.SyntaxKind.ExclamationEqualsToken,
  ]
  const visit = (node: ts.Node): void => {
    const isData =
      ts.isPropertyAssignment(node.parent ?? node) &&
      (node.parent as ts.PropertyAssignment).name.getText() === 'target'
    if (ts.isStringLiteralLike(node) && Object.hasOwn(worlds, node.text) && !isData)
      found.push(`${path}: '${node.text}'`)
    // Comparing the requested name with a measured name is allowed, because both are data.
    if (ts.isBinaryExpression(node) && equality.includes(node.operatorToken.kind))
      if (isName(node.left) !== isName(node.right)) found.push(`${path}: ${node.getText()}`)
    ts.forEachChild(node, visit)
  }
  visit(source)
  return found
}

it('operations and tuning never compare the name of a target', () => {
  const files = ['src/ops', 'src/tune'].flatMap((folder) =>
    readdirSync(folder, { recursive: true, encoding: 'utf8' })
      .filter((name) => name.endsWith('.ts'))
      .map((name) => join(folder, name)),
  )
  expect(files.length).toBeGreaterThan(40)
  expect(files.flatMap(namedTargets)).toEqual([])
})
