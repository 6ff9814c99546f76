/** Parses the columns of a table from its CREATE TABLE statement. */

export interface Columns {
  readonly names: readonly string[]
  /**
   * The index of the column that is an alias of the row id, or -1 if there is none. The records of a table do not
   * contain the value of a column that is an alias of the row id.
   */
  readonly rowNumber: number
}

const constraint = /^(constraint|primary|unique|check|foreign)\b/i

export function columnsOf(sql: string): Columns {
  const names: string[] = []
  let rowNumber = -1
  for (const definition of definitionsOf(sql)) {
    const text = definition.trim()
    if (text === '') continue
    const found = /^(?:"((?:[^"]|"")*)"|`([^`]*)`|\[([^\]]*)\]|([^\s(,]+))/.exec(text)
    if (!found || (found[4] !== undefined && constraint.test(text))) continue
    if (/^\s*integer\s+(?:not\s+null\s+)?primary\s+key\b(?!\s+desc)/i.test(text.slice(found[0].length)))
      rowNumber = names.length
    names.push(found[1]?.replaceAll('""', '"') ?? found[2] ?? found[3] ?? found[4])
  }
  return { names, rowNumber }
}

/** Splits the text inside the outermost parentheses at its commas, and removes comments. */
function definitionsOf(sql: string): string[] {
  const tokens =
    sql.match(/--[^\n]*|\/\*[\s\S]*?\*\/|'(?:[^']|'')*'|"(?:[^"]|"")*"|`[^`]*`|\[[^\]]*\]|[\s\S]/g) ?? []
  const definitions: string[] = []
  let depth = 0
  let current = ''
  for (const token of tokens) {
    if (token.startsWith('--') || token.startsWith('/*')) {
      current += ' '
      continue
    }
    if (token === '(' && depth++ === 0) {
      current = ''
      continue
    }
    if (token === ')' && --depth === 0) {
      definitions.push(current)
      break
    }
    if (token === ',' && depth === 1) {
      definitions.push(current)
      current = ''
    } else current += token
  }
  return definitions
}
