/**
 * Writes the tables of an audit as CSV (RFC 4180, with a heading line). Times are in microseconds, bandwidths in GB/s.
 * A field is empty if its value is unknown.
 */
import type { AuditDocument, RankDocument } from './document.ts'

type Value = string | number | boolean | null
type Column<Row> = readonly [name: string, of: (row: Row) => Value]

interface Table<Row> {
  readonly columns: readonly Column<Row>[]
  readonly rows: (document: AuditDocument) => Iterable<Row>
}
const table = <Row>(rows: Table<Row>['rows'], ...columns: readonly Column<Row>[]): Table<never> =>
  ({ rows, columns }) as unknown as Table<never>

const ledger: readonly Column<RankDocument>[] = [
  ['rank', ({ rank }) => rank],
  ['start_us', ({ startUs }) => startUs],
  ['wall_us', ({ wallUs }) => wallUs],
  ['busy_us', ({ busyUs }) => busyUs],
  ['compute_us', ({ computeUs }) => computeUs],
  ['communication_us', ({ commUs }) => commUs],
  ['overlap_pct', ({ overlapPct }) => overlapPct],
  ['wait_us', ({ taxes }) => taxes.waitUs],
  ['exposed_transfer_us', ({ taxes }) => taxes.exposedTransferUs],
  ['unsplit_communication_us', ({ other }) => other.unsplitCommUs],
  ['exposed_copy_us', ({ other }) => other.exposedCopyUs],
  ['dispatch_us', ({ idle }) => idle.dispatchUs],
  ['gap_us', ({ idle }) => idle.gapUs],
  ['host_blocked_us', ({ idle }) => idle.hostBlockedUs],
  ['host_absent_us', ({ idle }) => idle.hostAbsentUs],
  ['dependency_us', ({ idle }) => idle.dependencyUs],
  ['unattributed_us', ({ idle }) => idle.unattributedUs],
  ['locality_bytes', ({ taxes }) => taxes.localityBytes],
  ['locality_least_us', ({ taxes }) => taxes.localityUs?.[0] ?? null],
  ['locality_most_us', ({ taxes }) => taxes.localityUs?.[1] ?? null],
  ['launches', ({ launches }) => launches],
]

const work = (rows: (document: AuditDocument) => NonNullable<AuditDocument['kernels']>): Table<never> =>
  table(
    rows,
    ['name', ({ name }) => name],
    ['kind', ({ kind }) => kind],
    ['time_us', ({ us }) => us],
    ['share_pct', ({ pct }) => pct],
    ['calls', ({ calls }) => calls],
    ['mean_us', ({ us, calls }) => us / calls],
    ['longest_us', ({ longestUs }) => longestUs],
    ['launch_latency_us', ({ latencyUs }) => latencyUs],
    ['least_launch_latency_us', ({ leastLatencyUs }) => leastLatencyUs],
  )

const tables: Readonly<Record<string, Table<never>>> = {
  'ranks.csv': table(({ ranks }) => ranks, ...ledger),
  'steps.csv': table(
    ({ steps }) => steps.flatMap(({ number, ranks }) => ranks.map((rank) => ({ number, rank }))),
    ['step', ({ number }: { number: number; rank: RankDocument }) => number],
    ...ledger.map(
      ([name, of]) => [name, ({ rank }: { number: number; rank: RankDocument }) => of(rank)] as const,
    ),
  ),
  'kernels.csv': work(({ kernels = [] }) => kernels),
  'operators.csv': work(({ operators = [] }) => operators),
  'collectives.csv': table(
    ({ bandwidths = [] }) => bandwidths,
    ['kind', ({ kind }) => kind],
    ['group', ({ group }) => group],
    ['dtype', ({ dtype }) => dtype],
    ['ranks', ({ ranks }) => ranks],
    ['count', ({ count }) => count],
    ['bytes', ({ bytes }) => bytes],
    ['median_us', ({ medianUs }) => medianUs],
    ['algorithm_gb_s', ({ algorithmGBs }) => algorithmGBs],
    ['bus_gb_s', ({ busGBs }) => busGBs],
    ['link_gb_s', ({ linkGBs }) => linkGBs],
  ),
  'stragglers.csv': table(
    ({ stragglers }) => stragglers,
    ['rank', ({ rank }) => rank],
    ['kept_waiting_us', ({ keptWaitingUs }) => keptWaitingUs],
    ['exposed_wait_us', ({ exposedWaitUs }) => exposedWaitUs],
    ['saves_us', ({ savesUs }) => savesUs ?? null],
    ['late_us', ({ lateUs }) => lateUs],
    ['collectives', ({ collectives }) => collectives],
    ['more_work_us', ({ because }) => because?.moreWorkUs ?? null],
    ['slower_us', ({ because }) => because?.slowerUs ?? null],
    ['unknown_us', ({ because }) => because?.unknownUs ?? null],
    ['idle_us', ({ because }) => because?.idleUs ?? null],
  ),
  'fixes.csv': table(
    ({ fixes = [] }) => fixes,
    ['cause', ({ cause }) => cause],
    ['once', ({ once }) => once],
    ['time_us', ({ us }) => us],
    ['saves_us', ({ savesUs }) => savesUs],
    ['count', ({ count }) => count],
    ['ranks', ({ ranks }) => ranks.join(' ')],
    ['what', ({ what }) => what],
    ['advice', ({ advice }) => advice],
    ['evidence', ({ evidence }) => evidence],
    ['command', ({ command }) => command],
  ),
  'host.csv': table(
    ({ host = [] }) =>
      host.flatMap(({ rank, part, activities }) => activities.map((one) => ({ rank, part, ...one }))),
    ['rank', ({ rank }) => rank],
    ['part', ({ part }) => part],
    ['activity', ({ activity }) => activity],
    ['name', ({ name }) => name],
    ['inside', ({ inside }) => inside],
    ['time_us', ({ us }) => us],
    ['share_pct', ({ pct }) => pct],
    ['count', ({ count }) => count],
    ['longest_us', ({ longestUs }) => longestUs],
  ),
}

/** The names of the CSV files. */
export const csvNames: readonly string[] = Object.keys(tables)

/** Yields the name and the lines of each CSV file. */
export function* csvTables(
  document: AuditDocument,
): Generator<readonly [name: string, lines: Iterable<string>]> {
  for (const [name, of] of Object.entries(tables)) yield [name, linesOf(of, document)]
}

function* linesOf(of: Table<never>, document: AuditDocument): Generator<string> {
  yield `${of.columns.map(([name]) => name).join(',')}\r\n`
  for (const row of of.rows(document))
    yield `${of.columns.map(([, value]) => field(value(row))).join(',')}\r\n`
}

/**
 * A field in quotes if it contains a separator. If a spreadsheet would run the text of a field as a formula, an
 * apostrophe is put before the text.
 */
function field(value: Value): string {
  if (value === null) return ''
  if (typeof value === 'number') return String(Math.round(value * 1e6) / 1e6)
  const text = typeof value === 'string' && /^[=+\-@\t\r]/.test(value) ? `'${value}` : String(value)
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text
}
