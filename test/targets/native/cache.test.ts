/** Tests how the native target finds a compiler and caches libraries on disk. */
import { spawn } from 'node:child_process'
import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  truncateSync,
  utimesSync,
  writeFileSync,
} from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { describe, expect, test } from 'vitest'
import { i32 } from '../../../src/targets/cpu/build.ts'
import type { CodeFunction } from '../../../src/targets/cpu/code.ts'
import { cacheBytes } from '../../../src/targets/cpu/caches.ts'
import { machineOf } from '../../../src/targets/native/build.ts'
import { loadNative, nativeEngine, type NativeEngine } from '../../../src/targets/native/node.ts'
import { cacheForTests, engineForTests, entryOf, moduleOf, sharedMemory } from './engine.ts'

describe('finding a compiler', () => {
  test('names a missing ARKE_CXX compiler and says what to do', () => {
    expect(nativeEngine({ ARKE_CXX: '/nonexistent' })).toEqual({
      unavailable:
        'native: no C++ compiler (/nonexistent: not found): set ARKE_CXX to a C++ compiler, or remove it',
    })
  })
  test('names all compilers that were tried if none is found', () => {
    const before = process.env['PATH']
    process.env['PATH'] = '/nonexistent'
    try {
      expect(nativeEngine({})).toEqual({
        unavailable:
          'native: no C++ compiler (g++: not found; clang++: not found; c++: not found): install g++ or clang++, or set ARKE_CXX to a C++ compiler',
      })
    } finally {
      process.env['PATH'] = before
    }
  })
  test('says why a command is not a compiler', () => {
    const found = nativeEngine({ ARKE_CXX: 'false' })
    expect('unavailable' in found && found.unavailable).toContain('false: exit 1')
  })
})

describe('the machine', () => {
  const caches = { l1: 1, l2: 2 }
  const macros = (...names: string[]): string => names.map((name) => `#define ${name} 1\n`).join('')
  test.each([
    ['AVX-512', macros('__AVX2__', '__FMA__', '__AVX512F__', '__AVX512BW__', '__AVX512VL__'), 16, 12],
    ['AVX2', macros('__AVX2__', '__FMA__'), 8, 6],
    ['AVX-512 without all its parts', macros('__AVX2__', '__FMA__', '__AVX512F__'), 8, 6],
    ['SSE', macros('__SSE2__'), 4, 6],
    ['NEON', macros('__aarch64__'), 4, 12],
  ])('%s', (_, text, lanes, rows) => {
    expect(machineOf(text, caches)).toEqual({
      name: 'native',
      lanes,
      rows,
      columns: 2,
      prefetches: true,
      ...caches,
    })
  })
  test('uses the number of lanes from ARKE_LANES', () => {
    expect(machineOf(macros('__AVX2__', '__FMA__'), caches, 16)).toMatchObject({ lanes: 16, rows: 12 })
    const refused = nativeEngine({ ...process.env, ARKE_LANES: '5' })
    if (engine) expect(refused).toEqual({ unavailable: 'native: ARKE_LANES=5: vectors have 4, 8, 16 lanes' })
  })
  test('parses cache sizes as Linux prints them', () => {
    expect(['32K\n', '2M', '512', '', 'K'].map(cacheBytes)).toEqual([
      32768,
      2097152,
      512,
      undefined,
      undefined,
    ])
  })
})

const cache = cacheForTests()
const engine = engineForTests(cache)

describe.skipIf(!engine)('the cache', () => {
  const again = (): NativeEngine => nativeEngine({ ...process.env, ARKE_CACHE: cache }) as NativeEngine
  const pathOf = (from: NativeEngine, entry: CodeFunction): string =>
    new TextDecoder().decode(from.compile(moduleOf(from, 'cached', [entry])))
  const constantly = (value: number): CodeFunction => entryOf(() => i32(value))
  const callOf = (path: string): number =>
    loadNative(new TextEncoder().encode(path), sharedMemory(1))[0](0, 0, 0)

  test('a second engine reuses the libraries that the first one built', () => {
    const path = pathOf(engine!, constantly(1))
    const built = statSync(path)
    expect(pathOf(again(), constantly(1))).toBe(path)
    expect(statSync(path).ino).toBe(built.ino)
    expect(callOf(path)).toBe(1)
  })

  test('different code or another compiler command uses another folder', () => {
    const path = pathOf(engine!, constantly(1))
    expect(pathOf(engine!, constantly(2))).not.toBe(path)
    const other = nativeEngine({ ARKE_CACHE: cache, ARKE_CXX: `${engine!.compiler} -DOTHER` }) as NativeEngine
    expect(pathOf(other, constantly(1))).not.toBe(path)
  })

  test.each([
    ['cut short', (path: string) => writeFileSync(path, readFileSync(path).subarray(0, 1000))],
    ['absent', (path: string) => rmSync(path)],
    ['without its hash', (path: string) => rmSync(join(dirname(path), 'sha256'))],
    [
      'replaced by something foreign',
      (path: string) => {
        rmSync(dirname(path), { recursive: true })
        mkdirSync(dirname(path))
        writeFileSync(join(dirname(path), 'notes'), 'mine')
      },
    ],
    [
      'replaced by a file',
      (path: string) => {
        rmSync(dirname(path), { recursive: true })
        writeFileSync(dirname(path), 'mine')
      },
    ],
  ])('an entry that is %s is built again', (why, damage) => {
    const value = 100 + why.length
    const path = pathOf(engine!, constantly(value))
    damage(path)
    expect(pathOf(again(), constantly(value))).toBe(path)
    expect(callOf(path)).toBe(value)
    expect(readdirSync(join(cache, 'native')).filter((name) => /^(building|broken)/.test(name))).toEqual([])
  })

  test('a library prepared in the background equals one that was built synchronously', async () => {
    const module = moduleOf(engine!, 'prepared', [constantly(3)])
    let turns = 0
    const timer = setInterval(() => turns++, 1)
    await engine!.prepare!(module)
    clearInterval(timer)
    expect(turns).toBeGreaterThan(0)
    const other = again()
    expect(other.compile(module)).toEqual(engine!.compile(module))
    expect(readdirSync(join(cache, 'native')).filter((name) => /^building/.test(name))).toEqual([])
  })

  test('a compiler killed by a signal leaves no files, and the error does not blame the source', () => {
    const folder = cacheForTests()
    const compiler = join(folder, 'interrupted')
    writeFileSync(
      compiler,
      `#!/bin/sh\ncase " $* " in *" -dM "*) exec ${engine!.compiler} "$@" ;; esac\nkill -INT $$\n`,
      { mode: 0o755 },
    )
    const found = nativeEngine({ ARKE_CACHE: folder, ARKE_CXX: compiler }) as NativeEngine
    expect(() => found.compile(moduleOf(found, 'mine', [constantly(4)]))).toThrow(
      'native: the compiler was killed by SIGINT while building mine',
    )
    expect(readdirSync(join(folder, 'native'))).toEqual([])
  })

  test('several processes can build the same library concurrently', async () => {
    const tsx = pathToFileURL(createRequire(import.meta.url).resolve('tsx')).href
    const folder = new URL('../../../src/targets/', import.meta.url)
    const script = `
      import { nativeEngine, loadNative } from ${JSON.stringify(new URL('native/node.ts', folder).href)}
      import { codeFunction, i32 } from ${JSON.stringify(new URL('cpu/build.ts', folder).href)}
      const engine = nativeEngine()
      const parameters = ['launch', 'frame', 'slot'].map((name) => [name, 'ptr'])
      const entry = codeFunction('entry', parameters, (w) => w.return(i32(77)), { result: 'i32' })
      const bytes = engine.compile({ name: 'same', machine: engine.machine, entries: [entry] })
      const [call] = loadNative(bytes, new WebAssembly.Memory({ initial: 1, maximum: 1, shared: true }))
      process.exitCode = call(0, 0, 0)`
    const runs = [0, 1, 2].map(
      () =>
        new Promise<number | null>((resolve) => {
          const child = spawn(process.execPath, ['--import', tsx, '--input-type=module', '-e', script], {
            env: { ...process.env, ARKE_CACHE: cache },
            stdio: ['ignore', 'ignore', 'inherit'],
          })
          child.on('exit', resolve)
        }),
    )
    expect(await Promise.all(runs)).toEqual([77, 77, 77])
    expect(readdirSync(join(cache, 'native')).filter((name) => name.startsWith('building'))).toEqual([])
  }, 60_000)

  test('beyond its size limit, the cache removes the least recently used libraries but keeps recent ones', () => {
    const folder = join(cache, 'native')
    const big = (name: string, hoursAgo: number): string => {
      const path = join(folder, name)
      mkdirSync(path)
      writeFileSync(join(path, 'kernel.so'), '')
      // The library is a sparse file, because only its length matters.
      truncateSync(join(path, 'kernel.so'), 150 * 1024 * 1024)
      const used = new Date(Date.now() - hoursAgo * 3_600_000)
      utimesSync(path, used, used)
      return path
    }
    const [older, old, recent] = [big('older', 30), big('old', 20), big('recent', 0)]
    pathOf(again(), constantly(4242))
    expect([older, old, recent].map(existsSync)).toEqual([false, false, true])
    rmSync(recent, { recursive: true })
  })

  test('a source that does not compile is kept, and the error names its path', () => {
    const broken = nativeEngine({
      ARKE_CACHE: cache,
      ARKE_CXX: `${engine!.compiler} -Dextern=nonsense`,
    }) as NativeEngine
    let message = ''
    try {
      pathOf(broken, constantly(5))
    } catch (error) {
      message = (error as Error).message
    }
    expect(message).toMatch(/^native: cached does not compile\n.*error/s)
    const source = /(\S+kernel\.cpp)$/m.exec(message)![1]
    expect(readFileSync(source, 'utf8')).toContain('entry0')
  })

  test('a missing library is an error that names it', () => {
    expect(() => loadNative(new TextEncoder().encode('/nonexistent/kernel.so'), sharedMemory(1))).toThrow(
      'native: /nonexistent/kernel.so cannot be loaded',
    )
  })
})
