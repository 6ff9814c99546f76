/** Traces inside archives: the kinds of archives that are read, the kinds that are refused, and damaged archives. */
import { execFileSync } from 'node:child_process'
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import zlib, { gzipSync } from 'node:zlib'
import { afterAll, describe, expect, it } from 'vitest'
import { AuditError, type ReadOptions, readTraces } from '../../src/audit/open.ts'
import { root } from '../docs/snippets.ts'
import { tar, type TarMember, zip } from './archives.ts'

const folder = mkdtempSync(join(tmpdir(), 'arke-archives-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))

function put(name: string, bytes: Uint8Array | string): string {
  const path = join(folder, name)
  writeFileSync(path, bytes)
  return path
}

const text = (rank: number, kernels = 1): string => {
  const events = Array.from({ length: kernels }, (_, i) => ({
    ph: 'X', cat: 'kernel', name: `gemm ${i}`, pid: 0, tid: 7, ts: 10 * i, dur: 5, args: { device: 0, stream: 7, correlation: i },
  })) // prettier-ignore
  return JSON.stringify({ distributedInfo: { rank, world_size: 2 }, traceEvents: events })
}
const ranks = async (path: string, options?: ReadOptions): Promise<number[]> =>
  (await readTraces([path], options)).timeline.ranks.map(({ rank }) => rank)

async function refusal(path: string, options?: ReadOptions): Promise<string> {
  const error: unknown = await readTraces([path], options).catch((thrown: unknown) => thrown)
  expect(error).toBeInstanceOf(AuditError)
  return (error as AuditError).message.replaceAll(folder, '')
}

const two = [
  { name: 'run/rank0.json', data: text(0) },
  { name: 'run/rank1.json.gz', data: gzipSync(text(1)) },
]
const longName = `${'deep/'.repeat(40)}rank0.json`

describe('archives that are read', () => {
  it.each<[string, string, Uint8Array]>([
    ['tar', 'a.tar', tar(two)],
    ['tar.gz', 'a.tar.gz', gzipSync(tar(two))],
    ['tar with long names of pax', 'b.tar', tar([{ ...two[0], name: longName, long: 'pax' }, two[1]])],
    ['tar with long names of GNU', 'c.tar', tar([{ ...two[0], name: longName, long: 'gnu' }, two[1]])],
    ['tar with folders', 'd.tar', tar([{ name: 'run/', type: '5' }, ...two])],
    ['zip', 'a.zip', zip(two)],
    ['zip without compression', 'b.zip', zip(two.map((one) => ({ ...one, stored: true })))],
    ['zip with data descriptors', 'c.zip', zip(two.map((one) => ({ ...one, descriptor: true })))],
    ['zip64', 'd.zip', zip(two.map((one) => ({ ...one, zip64: true })))],
    ['an archive under another name', 'e.json', tar(two)],
  ])('%s', async (_, name, bytes) => {
    const read = await readTraces([put(name, bytes)])
    expect(read.timeline.ranks.map(({ rank }) => rank)).toEqual([0, 1])
    // The generated traces have no host calls.
    expect(read.warnings.filter((one) => one.class !== 'correlation')).toEqual([])
    expect(read.sources.map(({ path }) => path.replace(folder, ''))[1]).toBe(`/${name}/run/rank1.json.gz`)
  })

  it('together with other files, without files that are no traces', async () => {
    const others = [
      { name: 'README.md', data: 'a job' },
      { name: '._rank0.json', data: 'Mac' },
      ...two.slice(1),
    ]
    const paths = [put('rank0.json', text(0)), put('f.tar', tar(others))]
    expect((await readTraces(paths)).timeline.ranks.map(({ rank }) => rank)).toEqual([0, 1])
  })

  const hasTar = existsSync('/bin/tar') || existsSync('/usr/bin/tar')
  it.skipIf(!hasTar)('as the program tar writes them', async () => {
    const run = join(folder, 'run')
    mkdirSync(run, { recursive: true })
    for (const rank of [0, 1]) writeFileSync(join(run, `rank${rank}.json`), text(rank))
    for (const format of ['ustar', 'gnu', 'pax']) {
      const path = join(folder, `${format}.tar.gz`)
      execFileSync('tar', ['-czf', path, `--format=${format}`, '-C', folder, 'run'])
      expect(await ranks(path)).toEqual([0, 1])
    }
  })

  const database = join(root, '../shared/traces/nsys/mfu-2gpu.sqlite')
  it.skipIf(!existsSync(database))('a database of Nsight Systems in an archive', async () => {
    const alone = await readTraces([database])
    const packed = await readTraces([
      put('nsys.zip', zip([{ name: 'run.sqlite', data: readFileSync(database) }])),
    ])
    expect(packed.timeline.ranks.map(({ events }) => events.length)).toEqual(
      alone.timeline.ranks.map(({ events }) => events.length),
    )
  })

  it('in a folder with traces are skipped, and a warning names them', async () => {
    const run = join(folder, 'mixed')
    mkdirSync(run, { recursive: true })
    writeFileSync(join(run, 'rank0.json'), text(0))
    writeFileSync(join(run, 'copy.tar'), tar(two))
    const { timeline, warnings } = await readTraces([run])
    expect(timeline.ranks).toHaveLength(1)
    expect(warnings.map(({ message }) => message)).toContain(
      'copy.tar is an archive and was skipped; name it to audit its files',
    )
  })

  it('alone in a folder are read', async () => {
    const run = join(folder, 'packed')
    mkdirSync(run, { recursive: true })
    writeFileSync(join(run, 'all.tar'), tar(two))
    expect(await ranks(run)).toEqual([0, 1])
  })
})

describe('archives that are refused', () => {
  const member = (change: Partial<TarMember>): Buffer =>
    tar([{ name: 'rank0.json', data: text(0), ...change }])
  it.each<[string, string, Uint8Array, RegExp]>([
    [
      'a path with ..',
      'a.tar',
      member({ name: '../rank0.json' }),
      /"\.\.\/rank0\.json" leads out of the archive/,
    ],
    ['an absolute path', 'b.tar', member({ name: '/etc/rank0.json' }), /leads out of the archive/],
    ['a path of Windows', 'c.tar', member({ name: 'c:\\rank0.json' }), /leads out of the archive/],
    ['a path with .. in a zip', 'd.zip', zip([{ name: 'x/../../rank0.json', data: text(0) }]), /leads out/],
    ['a symbolic link', 'e.tar', member({ type: '2', link: '/etc/passwd' }), /is a link or a device/],
    ['a hard link', 'f.tar', member({ type: '1', link: 'other' }), /is a link or a device/],
    ['a device', 'g.tar', member({ type: '3' }), /is a link or a device/],
    [
      'a symbolic link in a zip',
      'h.zip',
      zip([{ name: 'rank0.json', data: '/etc', mode: 0o120777 }]),
      /is a link/,
    ],
    [
      'an archive inside',
      'i.tar',
      tar([{ name: 'inner.zip', data: zip(two) }]),
      /inner\.zip is an archive inside/,
    ],
    [
      'an archive under another name',
      'j.tar',
      tar([{ name: 'rank0.json', data: tar(two) }]),
      /archive inside/,
    ],
    [
      'a compressed archive inside',
      'k.zip',
      zip([{ name: 'rank0.json', data: gzipSync(tar(two)) }]),
      /archive inside/,
    ],
    ['an encrypted member', 'l.zip', zip([{ ...two[0], flags: 1 }]), /is encrypted/],
    ['another compression', 'm.zip', zip([{ ...two[0], method: 12 }]), /bzip2, which is not supported/],
    ['members that share data', 'n.zip', zip([two[0], { ...two[0], shares: 0 }]), /share data/],
    ['a sparse file', 'o.tar', member({ type: 'S' }), /sparse/],
    ['no trace', 'p.tar', tar([{ name: 'notes.txt', data: 'x' }]), /no trace found among the 1 files/],
    ['7z', 'q.7z', Buffer.from("7z\xbc\xaf'\x1c", 'latin1'), /this is a 7z archive, which is not supported/],
    ['bzip2', 'r.tar.bz2', Buffer.from('BZh9'), /bzip2, which is not supported/],
    ['xz', 's.tar.xz', Buffer.from('\xfd7zXZ\0', 'latin1'), /xz, which is not supported/],
    ['text', 't.tar', Buffer.from(text(0).repeat(9)), /damaged/],
  ])('%s', async (_, name, bytes, expected) => {
    expect(await refusal(put(name, bytes))).toMatch(expected)
  })

  it('that unpack to more than the limit', async () => {
    const path = put('large.tar.gz', gzipSync(tar(two)))
    expect(await refusal(path, { unpackLimit: 1000 })).toMatch(
      /unpack to more than 0\.000001 GB; raise the limit with --unpack-limit/,
    )
    expect(await ranks(path, { unpackLimit: 1e6 })).toEqual([0, 1])
  })

  const zeros = Buffer.alloc(80 << 20, ' ')
  it.each<[string, string, () => Uint8Array]>([
    ['tar.gz', 'bomb.tar.gz', () => gzipSync(tar([{ name: 'rank0.json', data: zeros }]))],
    ['zip', 'bomb.zip', () => zip([{ name: 'rank0.json', data: zeros }])],
    [
      'tar with a compressed trace',
      'bomb.tar',
      () => tar([{ name: 'rank0.json.gz', data: gzipSync(zeros) }]),
    ],
  ])('a decompression bomb in a %s', async (_, name, make) => {
    expect(await refusal(put(name, make()))).toMatch(/looks like a decompression bomb$/)
  })

  const canUnzstd = 'createZstdDecompress' in zlib
  it.skipIf(canUnzstd)('zstd on a version of Node without it, by its name', async () => {
    const bytes = Buffer.from([0x28, 0xb5, 0x2f, 0xfd, 0, 0, 0, 0, 0])
    for (const name of ['a.tar.zst', 'rank0.json.zst'])
      expect(await refusal(put(name, bytes))).toMatch(
        /compressed with zstd, .* decompress it with `zstd -d`$/,
      )
  })
  it.runIf(canUnzstd)('zstd is read where Node can', async () => {
    const { zstdCompressSync } = zlib as unknown as { zstdCompressSync: (bytes: Uint8Array) => Buffer }
    expect(await ranks(put('z.tar.zst', zstdCompressSync(tar(two))))).toEqual([0, 1])
    expect(await ranks(put('rank0.json.zst', zstdCompressSync(Buffer.from(text(0)))))).toEqual([0])
  })
})

describe('damaged archives', () => {
  const big = [
    { name: 'rank0.json', data: text(0, 50) },
    { name: 'rank1.json', data: text(1, 50) },
  ]
  it.each<[string, Uint8Array]>([
    ['a.tar', tar(big)],
    ['a.tar.gz', gzipSync(tar(big))],
    ['a.zip', zip(big)],
  ])('%s, cut off anywhere, is audited as far as it goes, or refused', async (name, whole) => {
    for (let i = 0; i <= 24; i++) {
      const path = put(`cut-${name}`, whole.subarray(0, Math.floor((whole.length * i) / 24)))
      const read = await readTraces([path]).catch((thrown: unknown) => thrown)
      if (read instanceof Error) expect(read).toBeInstanceOf(AuditError)
      else if (i < 24 && i > 22)
        expect((read as Awaited<ReturnType<typeof readTraces>>).timeline.ranks.length).toBeGreaterThan(0)
    }
  })

  it('the members before the damage are read, and a warning says so', async () => {
    const whole = tar(big)
    const { timeline, warnings } = await readTraces([put('half.tar', whole.subarray(0, whole.length - 4000))])
    expect(timeline.ranks.map(({ rank }) => rank)).toEqual([0, 1])
    expect(warnings.map(({ message }) => message).join('; ')).toMatch(
      /half\.tar: the archive ends inside rank1\.json/,
    )
  })

  it('a wrong checksum in a zip is a warning', async () => {
    const bytes = zip([{ ...big[0], stored: true }])
    bytes[bytes.indexOf('gemm 7')] ^= 1
    const { warnings } = await readTraces([put('sum.zip', bytes)])
    expect(warnings.map(({ message }) => message).join('; ')).toMatch(/rank0\.json is damaged: its checksum/)
  })
})
