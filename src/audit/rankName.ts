/** Extracts the rank number from the name of a file or of its folder. */

const rankInName = [
  /rank[-_]?(\d+)/i,
  /(?:^|[^0-9a-z])(\d+)of\d+/i,
  /worker[-_]?(\d+)/i,
  /(?:^|[^0-9a-z])r(\d+)(?=[._-])/i,
]
const rankInFolder = /(?:^|[^a-z])(?:rank|worker)[-_]?(\d+)$/i

/** The rank number in a file's name, or undefined. */
export function rankFromName(path: string): number | undefined {
  const name = path.split(/[/\\]/).pop() ?? ''
  for (const pattern of rankInName) {
    const found = pattern.exec(name)
    if (found) return Number(found[1])
  }
  return undefined
}

/** The rank number in a file's name, or else in the name of its folder, as in `rank_3/trace.json`. */
export function rankFromPath(path: string): number | undefined {
  const named = rankFromName(path)
  if (named !== undefined) return named
  const found = rankInFolder.exec(path.split(/[/\\]/).at(-2) ?? '')
  return found ? Number(found[1]) : undefined
}
