/** Tests the commands emit, targets, demo, help and version of `arke`. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { emit } from '../../src/cli/emit.ts'
import { load } from '../../src/cli/load.ts'
import { Progress } from '../../src/cli/progress.ts'
import { commandName, operations } from '../../src/ops/operations.ts'
import { irStageNames, stageDescription, stagedTargets, stageNames } from '../../src/targets/stages.ts'
import { itForSome, long } from '../long.ts'
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

  it('prints the kernel that FILE#NAME selects', async () => {
    const file = 'examples/07-all-gather-gemm.ts'
    const selected = await arke('emit', `${file}#allGatherGemm`)
    expect(selected.stdout).toMatch(/^kernel allGatherGemm\(/)
    expect(selected).toEqual(await arke('emit', file, '--kernel', 'allGatherGemm'))
  })

  it.each([
    [
      'examples/07-all-gather-gemm.ts#nope',
      'examples/07-all-gather-gemm.ts: has no operation or kernel nope; it has the kernels allGatherGemm, publish',
    ],
    ['nope', `there is no operation nope; there is ${operations.map(commandName).join(', ')}`],
  ])('lists what there is instead of %s', async (argument, message) => {
    expect(await arke('emit', argument)).toEqual({ code: 2, stdout: '', stderr: `arke: ${message}\n` })
  })

  it('shows what a pipeline becomes', long, async () => {
    const { stdout } = await arke(
      'emit',
      'examples/07-all-gather-gemm.ts',
      ...['--kernel', 'allGatherGemm', '--stage', 'lowered'],
    )
    expect(stdout).toContain('roles(')
    expect(stdout).toContain('copy.async(')
    expect(stdout).not.toContain('pipeline(')
  })

  it('shows every stage of a kernel, for every target', async () => {
    const fused = ['emit', 'examples/07-all-gather-gemm.ts', '--kernel', 'allGatherGemm', '--stage']
    const source = await load(join(root, fused[1]))
    expect(stageNames('cuda')).toContain('decide')
    expect(stageNames('native')).toEqual(['recorded', 'prints', 'simplified', 'complete', 'code'])
    for (const target of ['cuda', 'native', 'wasm'] as const)
      for (const stage of stageNames(target)) {
        const { text } = emit(source, { kernel: 'allGatherGemm', target, stage, ranks: 2 })
        const isIR = irStageNames(target).includes(stage)
        expect(text).toContain(isIR ? `// ${stage}, world=2` : '// allGatherGemm, for 2 ranks')
      }
    expect((await arke(...fused, 'order')).stdout).toMatch(/fence\.async\(space=all\)|meet\(\)/)
  })

  it('shows the decisions behind CUDA text', async () => {
    const source = await load(join(root, 'examples/07-all-gather-gemm.ts'))
    const { text } = emit(source, { kernel: 'allGatherGemm', target: 'cuda', stage: 'decide', ranks: 2 })
    const sections = ['roles', 'layouts', 'copies', 'products', 'shared memory', 'loops', 'start and end']
    for (const title of sections) expect(text).toMatch(new RegExp(`^${title}`, 'm'))
    expect(text).toMatch(/^ {2}copy\.async at \S+: by TMA, /m)
    expect(text).toMatch(/^ {2}dot at \S+: wgmma/m)
    expect(text).toMatch(/^ {2}producer: 1 thread of 4 warps from thread 0; \d+ registers per thread/m)
    expect(text).toMatch(/tiles in groups of 8 rows$/m)
  })

  it('makes flags visible to the host if it signals them', async () => {
    const source = await load(join(root, 'examples/07-all-gather-gemm.ts'))
    const given = { kernel: 'allGatherGemm', target: 'cuda', ranks: 2 } as const
    expect(emit(source, given).text).toContain('ld.acquire.gpu')
    for (const stage of [undefined, 'decide']) {
      const { text } = emit(source, { ...given, stage, hostSignals: true })
      expect(text).toMatch(/^\/\/.*ranks: all on one device; .*; the host signals flags;/m)
      expect(text).not.toContain('ld.acquire.gpu')
    }
    const plain = await load(join(root, 'examples/01-store.ts'))
    expect(() => emit(plain, { target: 'cuda', ranks: 2, hostSignals: true })).toThrow(
      '--host-signals: storeToPeer: no kernel has flags',
    )
  })

  it('writes CUDA as its options say', async () => {
    const source = await load(join(root, 'examples/07-all-gather-gemm.ts'))
    const given = { kernel: 'allGatherGemm', target: 'cuda', ranks: 2 } as const
    const { text } = emit(source, { ...given, severalDevices: true, record: true })
    expect(text).toMatch(/ranks: may be on several devices[^]*recording: on/)
    const all = await load(join(root, 'examples/02-all-load.ts'))
    expect(emit(all, { target: 'cuda', ranks: 8, group: [3, 0, 1] }).text).toMatch(
      /for 3 ranks[^]*heap_places\.of\[/,
    )
    expect(emit(all, { target: 'cuda', ranks: 8, group: [1, 3, 5] }).text).not.toContain('heap_places')
  })

  it('shows the code that becomes WebAssembly', async () => {
    const source = await load(join(root, 'examples/06-message-passing.ts'))
    const { text } = emit(source, { target: 'wasm', ranks: 2 })
    expect(text).toMatch(/^run\(launch: ptr, frame: ptr, slot: ptr\): i32 {2}\/\/ entry 0$/m)
    expect(text).toMatch(/call wait_flag\(/)
    expect(text).not.toContain('record_event')
    expect(emit(source, { target: 'wasm', ranks: 2, record: true }).text).toContain('call record_event(')
  })

  it('prints the kernels that an operation launches', async () => {
    const args = ['--variant', 'fused', '--shape', 'M=16,N=3584,K=8192', '--dtype', 'bf16', '--ranks', '8']
    const { code, stdout } = await arke('emit', 'all-gather-gemm', ...args, '--target', 'cuda')
    expect(code).toBe(0)
    expect(stdout).toContain('// allGatherGemmFusedByShard, for 8 ranks; BM = 16, ')
    // One rank's shard of K has 8192 / 8 = 1024 elements.
    expect(stdout).toContain('//   a: starts at a multiple of 16 bytes; extents are multiples of [16, 1024];')
    const packed = await arke('emit', 'all-gather-gemm', '--variant', 'bsp', '--packed', '--target', 'native')
    expect(packed.stdout).toContain('//   packed tensors: b\n')
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
      const { code, stdout, stderr } = await arke('emit', path, '--target', 'cuda', '--extents', 'a=64x64')
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

  it('writes C++ for a processor', long, async () => {
    const { code, stdout } = await arke('emit', 'examples/07-all-gather-gemm.ts', '--target', 'native')
    expect(code).toBe(0)
    expect(stdout).toContain('// allGatherGemm, for vectors of 8 lanes.')
    expect(stdout).toContain('heaps: at a constant distance')
    expect(stdout).toContain('entry0(')
  })

  it('writes CUDA, by the copy engine where the shapes allow it', long, async () => {
    const fused = ['emit', 'examples/07-all-gather-gemm.ts', '--kernel', 'allGatherGemm', '--target', 'cuda']
    const { code, stdout } = await arke(...fused)
    expect(code).toBe(0)
    expect(stdout).toContain('__global__ void __launch_bounds__(384, 1) allGatherGemm(')
    expect(stdout).toContain('tma_load_3d(')
    const odd = await arke(...fused, '--extents', 'a=4096x1001')
    expect(odd.code).toBe(0)
    expect(odd.stdout).not.toContain('tma_load_3d(a_tile')
    const options = ['--several-devices', '--record']
    expect((await arke(...fused, ...options)).stdout).toMatch(
      /ranks: may be on several devices[^]*recording: on/,
    )
  })

  it('writes CUDA for ranks on one device unless told otherwise', long, async () => {
    const fused = ['emit', 'examples/07-all-gather-gemm.ts', '--kernel', 'allGatherGemm', '--target', 'cuda']
    expect((await arke(...fused, '--one-device')).stdout).toBe((await arke(...fused)).stdout)
    const small = await arke(...fused, '--shared-bytes', '101376')
    expect(small.stdout).toContain('for sm_90a with 101376 bytes of shared memory per program')
    const smaller = await arke(...fused, '--shared-bytes', '16384')
    expect(smaller.stderr).toMatch(/allGatherGemm needs \d+ bytes of shared memory, a program has 16384/)
  })

  it(
    'prints a kernel for a group, which finds heaps in a table if its ranks do not ascend evenly',
    long,
    async () => {
      const emitted = async (group: string): Promise<string> =>
        (await arke('emit', 'examples/02-all-load.ts', '--target', 'cuda', '--group', group)).stdout
      expect(await emitted('3,0,1')).toMatch(/for 3 ranks[^]*heap_places\.of\[/)
      expect(await emitted('1,3,5')).not.toContain('heap_places')
    },
  )

  const refused = [
    [['--target', 'cuda', '--extents', 'a'], '--extents a: write NAME=4096x4096'],
    [['--target', 'cuda', '--extents', 'q=3'], '--extents q: allGatherGemm has no tensor q; it has a, b, c'],
    [['--target', 'cuda', '--extents', 'a=3'], '--extents a: 2 extents are wanted, not 1'],
    [['--target', 'cuda', '--shape', 'M=3'], '--shape: this option describes an operation, but examples/07'],
    [['--target', 'cuda', '--packed', 'b'], '--packed: cuda kernels do not depend on this option'],
    [['--target', 'metal'], "argument 'metal' is invalid. Allowed choices are cuda, native, wasm."],
    [
      ['--target', 'native', '--stage', 'lowered'],
      '--stage lowered: native has no such stage; it has recorded, prints, simplified, complete, code\n',
    ],
    [
      ['--target', 'wasm', '--stage', 'raw'],
      '--stage raw: wasm has no such stage; it has recorded, prints, simplified, complete, code\n',
    ],
    [['--target', 'native', '--extents', 'a=8x8'], '--extents: native kernels do not depend on this option'],
    [
      ['--target', 'native', '--several-devices'],
      '--several-devices: native kernels do not depend on this option',
    ],
    [['--target', 'native', '--host-signals'], '--host-signals: native kernels do not depend on this option'],
    [
      ['--target', 'native', '--shared-bytes', '9'],
      '--shared-bytes: native kernels do not depend on this option',
    ],
    [['--target', 'native', '--packed', 'q'], '--packed q: allGatherGemm has no tensor q; it has a, b, c'],
    [['--group', '0,1'], '--group: the kernel as written does not depend on'],
    [['--target', 'cuda', '--group', '0,0'], 'A rank occurs more than once.'],
    [['--target', 'native', '--group', '0,1,0'], 'A rank occurs more than once.'],
    [['--target', 'native', '--group', '0,64'], 'The value must be a whole number from 0 to 63.'],
    [['--target', 'native', '--group', '0,1', '--ranks', '4'], "cannot be used with option '--ranks <n>'"],
    [['--record'], '--record: the kernel as written does not depend on this option'],
    [
      ['--stage', 'cuda'],
      '--stage cuda: cuda has no such stage; it has recorded, prints, simplified, lowered',
    ],
    [['--stage', 'order', '--extents', 'a=8'], '--extents a: 2 extents are wanted, not 1'],
    [['--one-device', '--several-devices'], "'--several-devices' cannot be used with option '--one-device'"],
    [['--target', 'cuda', '--meta', 'BM=4096'], 'examples/07-all-gather-gemm.ts:'],
  ] as const
  itForSome(refused, (_, place) => place % 6 === 0)('refuses %j in one line', async ([args, message]) => {
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

describe('the JSON document', () => {
  const { version } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as { version: string }

  const documents = [
    ['targets', []],
    ['operations', []],
    ['check', ['examples/06-message-passing.ts', '--limit', '1', '--schedules', '0', '--stage', 'recorded']],
  ] as const
  itForSome(documents, ([command]) => command !== 'check')(
    'of arke %s has the version of Arke as its first key',
    async ([command, args]) => {
      const { code, stdout } = await arke(command, ...args, '--json')
      expect(code).toBe(0)
      expect(Object.entries(JSON.parse(stdout) as object)[0]).toEqual(['arke', version])
    },
  )
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
  it(
    'audits, finds a race, shows what a GPU did, runs operations, writes a page and says what to do next',
    long,
    async () => {
      const { code, stdout, stderr } = await arke('demo')
      const broken = 'examples/broken/message-passing.ts'
      const { line, column } = placeOf(readFileSync(join(root, broken), 'utf8'), 'store(inbox')
      expect(stderr).toBe('')
      expect(stdout).toMatch(/\d+\.\d % of GPU time lost.*; rank 5 causes \d+\.\d % of the waiting\./)
      expect(stdout).toContain('race in signalTooEarly')
      // The demo states the origin of the recording from a GPU, and prints the time of each variant beside its
      // timeline.
      expect(stdout).toMatch(
        /NVIDIA H200, 128 multiprocessors, target cuda, \d{4}-\d\d-\d\d, commit [0-9a-f]{7}\./,
      )
      expect(stdout.replace(/\s+/g, ' ')).toContain(
        'The 8 ranks are virtual: they share one GPU and its memory',
      )
      expect(stdout).toMatch(
        /^ +fused: \d+ µs, 1\.\d\d× as fast as bsp \(95 % interval 1\.\d\d to 1\.\d\d\)$/m,
      )
      expect(stdout.match(/^ +rank [0-7] [█·░▒ -]+$/gm)!.length).toBeGreaterThanOrEqual(2 * 8)
      const recorded = readFileSync(join(project.folder, 'arke-recording.html'), 'utf8')
      expect(recorded).toMatch(/^<!doctype html>/)
      expect(stdout).toMatch(/Contention before the run: /)
      expect(stdout).toContain(`${broken}:${line}:${column}  rank 0, program 0 writes inbox[0]`)
      expect(stdout).toContain('again: npx arke check ')
      expect(stdout).toMatch(
        /\d+ distinct interleavings? searched .* random schedules, on .* ranks: nothing found/,
      )
      expect(readFileSync(join(project.folder, 'arke-report.html'), 'utf8')).toMatch(/^<!doctype html>/)
      expect(stdout).toContain('Next:')
      expect(stdout).toContain('node_modules/arke/docs/language.md')
      expect(code).toBe(0)
    },
  )
})

describe('help', () => {
  const helps = [
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
  ] as const
  itForSome(helps, (_, place) => place % 2 === 0)('%j', async ([args, words]) => {
    const { code, stdout } = await arke(...args)
    for (const word of words) expect(stdout).toContain(word)
    expect(code).toBe(0)
  })

  it('explains every stage of every target', async () => {
    const { stdout } = await arke('emit', '--help')
    for (const target of stagedTargets)
      for (const stage of stageNames(target))
        expect(stdout).toContain(`  ${stage.padEnd(10)}  ${stageDescription(target, stage)}\n`)
  })

  it('names an unknown command', async () => {
    for (const args of [['nope'], ['help', 'nope']]) {
      const { code, stderr } = await arke(...args)
      expect(stderr).toMatch(/^arke: unknown command 'nope'\n\nCommands:\n/)
      expect(code).toBe(2)
    }
    expect((await arke('help', 'emit')).stdout).toMatch(/^Usage: arke emit /)
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
