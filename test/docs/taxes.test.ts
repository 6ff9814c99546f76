/** Tests the worked examples of docs/taxes.md: their ledgers must follow from their events. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { executionsOf, ledgerOf, pictureOf } from '../../src/runs/ledger.ts'
import { type RunLedger, runPartNames } from '../../src/runs/results.ts'
import { audit } from '../../src/taxes/audit.ts'
import { TimelineBuilder } from '../../src/timeline/builder.ts'
import { Kind } from '../../src/timeline/timeline.ts'
import { Warnings } from '../../src/timeline/warnings.ts'
import { workerTrack } from '../../src/timeline/workers.ts'
import { root } from './snippets.ts'

const page = readFileSync(join(root, 'docs/taxes.md'), 'utf8')

/** The rows of the table after a marker, keyed by column heading. */
function table(marker: string): Record<string, string>[] {
  const lines = page
    .slice(page.indexOf(`<!-- ${marker} -->`))
    .split('\n')
    .slice(2)
  const rows = lines.slice(
    0,
    lines.findIndex((line) => !line.startsWith('|')),
  )
  const cells = rows.map((row) =>
    row
      .split('|')
      .slice(1, -1)
      .map((cell) => cell.trim()),
  )
  return cells.slice(2).map((row) => Object.fromEntries(cells[0].map((head, i) => [head, row[i]])))
}

it('the ledger of the worked example follows from its events', () => {
  const builder = new TimelineBuilder()
  const ranks = new Map<string, ReturnType<TimelineBuilder['rank']>>()
  const launches = new Map<string, number>()
  for (const row of table('events')) {
    let rank = ranks.get(row.rank)
    if (!rank) ranks.set(row.rank, (rank = builder.rank(Number(row.rank))))
    const kind = row.what === 'allReduce' ? Kind.communication : Kind[row.what as keyof typeof Kind]
    const [from, to] = [Number(row.from) * 1000, Number(row.to) * 1000]
    const track = rank.track(row.track as 'thread' | 'stream', 0, 0)
    const event = rank.add(kind, track, builder.intern(row.name), from, to - from)
    const call = `${row.rank} ${row['launched by']}`
    if (row.what === 'launch') launches.set(call, event)
    else if (row['launched by']) rank.linkLaunch(event, launches.get(call) as number)
    if (row.what === 'allReduce')
      rank.setCommunication(
        event,
        rank.communication({
          collective: 'allReduce',
          library: 'nccl',
          group: '0',
          groupDescription: null,
          groupRanks: [0, 1],
          groupSize: 2,
          communicator: null,
          dtype: null,
          elementsIn: null,
          elementsOut: null,
          source: null,
          destination: null,
        }),
        1,
      )
  }
  const audited = audit(builder.freeze(), new Warnings())
  const expected = table('ledger')
  expect(expected).toHaveLength(2)
  expect(
    audited.ranks.map(({ index, ledger: { wall, parts } }) => ({
      rank: index,
      wall,
      compute: parts.compute,
      wait: parts.wait,
      transfer: parts.transfer,
      dispatch: parts.dispatch,
      gap: parts.gap,
      'host blocked': parts.hostBlocked,
      'host absent': parts.hostAbsent,
    })),
  ).toEqual(
    expected.map((row) =>
      Object.fromEntries(
        Object.entries(row).map(([head, cell]) => [
          head,
          head === 'rank' ? Number(cell) : Number(cell) * 1000,
        ]),
      ),
    ),
  )
  for (const { ledger } of audited.ranks)
    expect(Object.values(ledger.parts).reduce((sum, part) => sum + part, 0)).toBe(ledger.wall)
})

it('the ledger of a run of our own follows from its events', () => {
  const tensors = [...new Set(table('bytes').map(({ tensor }) => tensor))]
  const builder = new TimelineBuilder()
  const ranks = [builder.rank(0), builder.rank(1)]
  const launches = new Map<string, number>()
  for (const row of table('run')) {
    const rank = ranks[Number(row.rank)]
    const worker = /^worker (\d)$/.exec(row.track)
    const track = worker
      ? rank.track('worker', 0, workerTrack({ stream: 0, leader: Number(worker[1]), role: 0 }))
      : rank.track(row.track as 'thread' | 'stream', 0, 0)
    const [from, to] = [Number(row.from) * 1000, Number(row.to) * 1000]
    const kind = Kind[row.what as keyof typeof Kind]
    const event = rank.add(kind, track, builder.intern(row.name), from, to - from)
    if (row.what === 'launch') launches.set(`${row.rank} ${row.name}`, event)
    const launch = launches.get(`${row.rank} launch ${row.name}`)
    if (launch !== undefined) rank.linkLaunch(event, launch)
    const bytes = table('bytes').filter(({ kernel }) => kernel === row.name)
    rank.setTraffic(
      event,
      bytes.map(({ tensor, size, written, read }) => ({
        tensor: tensors.indexOf(tensor),
        name: tensor,
        size: Number(size),
        written: Number(written),
        read: Number(read),
      })),
    )
  }
  const timeline = builder.freeze()
  const executions = executionsOf(timeline, 'gate')
  expect(executions).toHaveLength(1)
  const picture = pictureOf(timeline, executions[0], { bandwidth: 1e9 })
  const row = (rank: string, { wall, parts, locality }: RunLedger) => ({
    rank,
    wall: String(wall / 1000),
    ...Object.fromEntries(runPartNames.map((part) => [part, String(parts[part] / 1000)])),
    'locality bytes': String(locality.bytes),
  })
  const mean = ledgerOf(picture)
  expect([...picture.ranks.map(({ rank, ledger }) => row(String(rank), ledger)), row('mean', mean)]).toEqual(
    table('run ledger'),
  )
  expect(mean.locality.time).toEqual([0, 4096])
  expect(page).toContain('up to 4.096 µs')
})
