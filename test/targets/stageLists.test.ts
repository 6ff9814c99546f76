/** The stages that kernels pass through are those that `--stage` names, in the same order. */
import { expect, it } from 'vitest'
import { roleStages } from '../../src/ir/stages.ts'
import { cpuStages } from '../../src/targets/cpu/stages.ts'
import { roleShape } from '../../src/targets/cuda/roleShape.ts'
import { gpuStages } from '../../src/targets/cuda/stages.ts'
import { irStageNames } from '../../src/targets/stages.ts'

const names = (stages: readonly { readonly name: string }[]): string[] => stages.map(({ name }) => name)

it('of a GPU', () => {
  expect(['recorded', ...names(roleStages(roleShape)), ...names(gpuStages)]).toEqual(irStageNames('cuda'))
})

it.each(['native', 'wasm'] as const)('of %s', (target) => {
  expect(['recorded', ...names(cpuStages)]).toEqual(irStageNames(target))
})
