/** Tests the list of cases that run on a GPU. Results are stored by name, so names must be unique. */
import { spawnSync } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { expect, it } from 'vitest'

const expectedFiles = [
  ...[
    'arithmetic',
    'atomics',
    'casts',
    'clusters',
    'collectives',
    'copiesInFlight',
    'diagnostics',
    'functions',
    'gathered',
  ],
  ...[
    'groups',
    'hostSignals',
    'insideRoles',
    'lastArrival',
    'matrices',
    'moves',
    'operations',
    'random',
    'randomNumbers',
  ],
  ...['streams', 'stress', 'synchronisation'],
]
const verify = fileURLToPath(new URL('../../bench/gpu/verify.ts', import.meta.url))
const linesOf = (...args: string[]): string[] => {
  const { status, stdout, stderr } = spawnSync(process.execPath, ['--import', 'tsx', verify, ...args], {
    encoding: 'utf8',
  })
  expect([status, stderr]).toEqual([0, expect.stringMatching(/^(the cuda world is not tested here: .*\n)?$/)])
  return stdout.trim().split('\n')
}

it('lists every GPU case under a unique name', { timeout: 60_000 }, () => {
  const names = linesOf('--list')
  expect(new Set(names).size).toBe(names.length)
  // Cases of the CUDA world need a GPU.
  const files = new Set(names.map((name) => name.split(' > ')[0]).filter((file) => file !== 'world'))
  expect([...files].sort()).toEqual([...expectedFiles].sort())
  // Tests of the recording, of the checker and of emulations do not run on a GPU.
  expect(names.filter((name) => !/\b(?:on|by|of) cuda\b/.test(name) || name.includes('CPU'))).toEqual([])
  // The names of parametrised test cases contain their values.
  expect(names).toContain('operations > All-Gather + GEMM on cuda > bsp-K, 20 launches in a row')
  expect(names.filter((name) => /[$%]\w/.test(name))).toEqual([])
})
