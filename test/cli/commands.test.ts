/** The other commands: emit, targets, demo, help and version. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { emit } from '../../src/cli/emit.ts'
import { load } from '../../src/cli/load.ts'
import { checkedStages, stageNames } from '../../src/cli/options.ts'
import { Progress } from '../../src/cli/progress.ts'
import * as facts from '../../src/targets/cuda/facts.ts'
import { arke, authorFolder, placeOf, project, root } from './arke.ts'

const file = authorFolder()

describe('emit', () => {
  const path = file(
    'scale.mjs',
    `import { f32, kernel, tensor } from 'arke'
export const scale = kernel('scale', { x: tensor(f32, 1) }, { B: 4, by: 2 }, (t, { x }, { B, by }) => {
  t.persistent(x.tiles([B]), (tile) => t.store(tile, t.load(tile).mul(by)))
})
export const nothing = kernel('nothing', { x: tensor(f32, 1) }, () => {})
`,
  )

  it('prints every kernel of a file', async () => {
    const { code, stdout } = await arke('emit', path)
    expect(code).toBe(0)
    expect(stdout).toContain('kernel scale(x: tensor<f32,1>)  // recorded, world=2, B=4, by=2')
    expect(stdout).toContain('kernel nothing(')
  })

  it('prints one of them, specialised, with the lines it was made from', async () => {
    const args = [
      '--kernel',
      'scale',
      '--ranks',
      '8',
      '--meta',
      'B=16',
      'by=3',
      '--stage',
      'lowered',
      '--sites',
    ]
    const { stdout } = await arke('emit', path, ...args)
    expect(stdout).toContain('// lowered, world=8, B=16, by=3')
    expect(stdout).toMatch(/load\(.*\): f32\[16\] {3}\/\/ .*scale\.mjs:3:\d+/)
    expect(stdout).not.toContain('nothing')
  })

  it('shows what a pipeline becomes', async () => {
    const { stdout } = await arke(
      'emit',
      'examples/07-all-gather-gemm.ts',
      ...['--kernel', 'allGatherGemm', '--stage', 'lowered'],
    )
    expect(stdout).toContain('roles(')
    expect(stdout).toContain('copy.async(')
    expect(stdout).not.toContain('pipeline(')
  })

  it('shows every stage of a kernel for a GPU', async () => {
    const fused = ['emit', 'examples/07-all-gather-gemm.ts', '--kernel', 'allGatherGemm', '--stage']
    const source = await load(join(root, fused[1]))
    for (const stage of stageNames) {
      const { text } = emit(source, { kernel: 'allGatherGemm', stage, ranks: 2, meta: [], shapes: [] })
      expect(text).toContain(`// ${stage}, world=2`)
    }
    expect((await arke(...fused, 'order')).stdout).toMatch(/fence\.async\(space=all\)|meet\(\)/)
    expect(stageNames).toEqual(facts.stageNames)
    expect(stageNames).toEqual(expect.arrayContaining([...checkedStages, facts.LAST_STAGE]))
  })

  describe('of a product without the matrix unit', () => {
    const text = `import { f32, f8e4m3, kernel, tensor } from 'arke'
export const product = kernel('product', { a: tensor(f8e4m3, 2), c: tensor(f32, 2) }, (t, { a, c }) => {
  const tile = t.shared(f8e4m3, [64, 64])
  t.copy(a.tile([0, 0], [64, 64]), tile)
  t.store(c.tile([0, 0], [64, 64]), t.dot(tile, tile.transpose(), t.zeros(f32, [64, 64])))
})
`
    const path = file('product.mjs', text)
    const { line, column } = placeOf(text, 'dot(tile')
    const note = new RegExp(
      `note: \\S*product\\.mjs:${line}:${column}: this product of f8e4m3 values does not use the matrix unit on sm_90a, .+\n`,
    )

    it('says so on stderr and in the CUDA text, and what the text assumes', async () => {
      const { code, stdout, stderr } = await arke('emit', path, '--target', 'cuda', '--shape', 'a=64x64')
      expect(code).toBe(0)
      expect(stderr).toMatch(new RegExp(`^${note.source}$`))
      expect(stdout).toMatch(new RegExp(`^// ${note.source}`, 'm'))
      expect(stdout).toContain('//   a: starts at a multiple of 16 bytes; extents are multiples of [64, 64];')
    })

    it('says nothing for another target', async () => {
      const { stdout, stderr } = await arke('emit', path, '--target', 'native')
      expect(stderr).toBe('')
      expect(stdout).not.toContain('note:')
    })
  })

  it('writes C++ for a processor', async () => {
    const { code, stdout } = await arke('emit', 'examples/07-all-gather-gemm.ts', '--target', 'native')
    expect(code).toBe(0)
    expect(stdout).toContain('// allGatherGemm, for vectors of 8 lanes.')
    expect(stdout).toContain('entry0(')
  })

  it('writes CUDA, by the copy engine where the shapes allow it', async () => {
    const fused = ['emit', 'examples/07-all-gather-gemm.ts', '--kernel', 'allGatherGemm', '--target', 'cuda']
    const { code, stdout } = await arke(...fused)
    expect(code).toBe(0)
    expect(stdout).toContain('__global__ void __launch_bounds__(384, 1) allGatherGemm(')
    expect(stdout).toContain('tma_load_3d(')
    const odd = await arke(...fused, '--shape', 'a=4096x1001')
    expect(odd.code).toBe(0)
    expect(odd.stdout).not.toContain('tma_load_3d(a_tile')
    expect((await arke(...fused, '--one-device')).stdout).toBe(stdout)
    expect((await arke(...fused, '--several-devices')).stdout).toContain('ranks: may be on several devices')
    expect((await arke(...fused, '--record')).stdout).toContain('recording: on')
  })

  it.each([
    [['--target', 'cuda', '--shape', 'a'], '--shape a: write NAME=4096x4096'],
    [['--target', 'cuda', '--shape', 'q=3'], '--shape q: allGatherGemm has no tensor q; it has a, b, c'],
    [['--target', 'cuda', '--shape', 'a=3'], '--shape a: 2 extents are wanted, not 1'],
    [['--target', 'metal'], "argument 'metal' is invalid. Allowed choices are cuda, native."],
    [['--target', 'native', '--stage', 'lowered'], '--target native --stage lowered: '],
    [['--target', 'native', '--shape', 'a=8x8'], "--shape a=8x8: a CPU's text does not depend on extents"],
    [['--target', 'cuda', '--stage', 'recorded'], '--target cuda --stage recorded: '],
    [['--stage', 'cuda'], "argument 'cuda' is invalid. Allowed choices are recorded, simplified,"],
    [['--stage', 'order', '--shape', 'a=8'], '--shape a: 2 extents are wanted, not 1'],
    [['--one-device', '--several-devices'], "'--several-devices' cannot be used with option '--one-device'"],
    [['--target', 'cuda', '--meta', 'BM=4096'], 'examples/07-all-gather-gemm.ts:'],
  ])('refuses %j in one line', async (args, message) => {
    const { code, stdout, stderr } = await arke(
      'emit',
      'examples/07-all-gather-gemm.ts',
      '--kernel',
      'allGatherGemm',
      ...args,
    )
    expect(code).toBe(2)
    expect(stdout).toBe('')
    expect(stderr.trimEnd().split('\n')).toHaveLength(1)
    expect(stderr).toContain(message)
  })
})

describe('targets', () => {
  it('names those that exist, and a reason for each that cannot be used', async () => {
    const { code, stdout } = await arke('targets')
    expect(code).toBe(0)
    const lines = stdout.trimEnd().split('\n')
    expect(lines.map((line) => line.split(' ')[0])).toEqual(['check', 'wasm', 'native', 'cuda'])
    expect(lines[0]).toMatch(/^check +yes /)
    expect(lines[1]).toMatch(/^wasm +yes /)
    for (const line of lines.slice(2)) expect(line).toMatch(/^(native|cuda) +(yes|no) +\S/)
  })
})

describe('demo', () => {
  it('catches a race at its line, runs what is right, writes a page and says what to do next', async () => {
    const { code, stdout, stderr } = await arke('demo')
    const broken = 'examples/broken/message-passing.ts'
    const { line, column } = placeOf(readFileSync(join(root, broken), 'utf8'), 'store(inbox')
    expect(stderr).toBe('')
    expect(stdout).toContain('race in signalTooEarly')
    expect(stdout).toContain(`${broken}:${line}:${column}  rank 0, program 0 writes inbox[0]`)
    expect(stdout).toContain('again: npx arke check ')
    expect(stdout).toMatch(
      /\d+ distinct interleavings? searched .* random schedules, on .* ranks: nothing found/,
    )
    expect(readFileSync(join(project.folder, 'arke-report.html'), 'utf8')).toMatch(/^<!doctype html>/)
    expect(stdout).toContain('Next:')
    expect(stdout).toContain('node_modules/arke/docs/language.md')
    expect(code).toBe(0)
  })
})

describe('help', () => {
  it.each([
    [[], ['check', 'emit', 'targets', 'demo']],
    [['--help'], ['check', 'emit', 'targets', 'demo']],
    [
      ['check', '--help'],
      ['--schedules', '--preemptions', 'Examples:', 'arke check '],
    ],
    [
      ['emit', '--help'],
      ['--meta', 'Examples:', 'arke emit '],
    ],
    [
      ['targets', '--help'],
      ['Examples:', 'arke targets', '--json', '--out'],
    ],
    [
      ['demo', '--help'],
      ['Example:', 'arke demo'],
    ],
  ])('%j', async (args, words) => {
    const { code, stdout } = await arke(...args)
    for (const word of words) expect(stdout).toContain(word)
    expect(code).toBe(0)
  })

  it('--version is the version of the package', async () => {
    const { version } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as { version: string }
    expect(await arke('--version')).toEqual({ code: 0, stdout: `${version}\n`, stderr: '' })
  })
})

describe('progress', () => {
  const stream = (isTTY: boolean) => {
    const written: string[] = []
    const fake = { isTTY, columns: 10, write: (text: string) => written.push(text) > 0 }
    return { written, stream: fake as unknown as NodeJS.WriteStream }
  }
  it('is one line on a terminal, wiped at the end, and nothing elsewhere', () => {
    const terminal = stream(true)
    const shown = new Progress(terminal.stream)
    shown.show(() => 'a line that is too long')
    shown.clear()
    expect(terminal.written).toEqual(['\r\u001b[2Ka line th', '\r\u001b[2K'])
    const pipe = stream(false)
    const silent = new Progress(pipe.stream)
    silent.show(() => 'text')
    silent.clear()
    expect(pipe.written).toEqual([])
  })
})
