/**
 * Reads documents that `arke audit --json` wrote. A document is recognised by its content, not by its file name. The
 * first key of an audit document is `arke`, and the value of that key is the version as a string. In a trace that Arke
 * wrote, the value of the first key is an object.
 */
import { closeSync, openSync, readFileSync, readSync, statSync } from 'node:fs'
import { AuditError } from '../audit/auditError.ts'
import type { AuditDocument } from './document.ts'

const HEAD = 4096
/** The largest size of a document in bytes. A JavaScript string cannot hold a much larger document. */
const LARGEST = 512e6

export function isDocument(path: string): boolean {
  let file: number
  try {
    if (!statSync(path).isFile()) return false
    file = openSync(path, 'r')
  } catch {
    return false
  }
  try {
    const head = Buffer.alloc(HEAD)
    const text = head.toString('utf8', 0, readSync(file, head, 0, HEAD, 0))
    return /^[\s\uFEFF]*\{\s*"arke"\s*:\s*"/.test(text)
  } catch {
    return false
  } finally {
    closeSync(file)
  }
}

/** Reads a document. Throws an `AuditError` if the document is damaged or lacks a field that is shown or compared. */
export function readDocument(path: string): AuditDocument {
  const again = 'write the document again with arke audit --json'
  if (statSync(path).size > LARGEST)
    throw new AuditError(`${path}: this document is larger than ${LARGEST / 1e6} MB; pass its traces instead`)
  let document: unknown
  try {
    document = JSON.parse(readFileSync(path, 'utf8').replace(/^\uFEFF/, ''))
  } catch {
    throw new AuditError(`${path}: this document of arke audit is damaged or cut off; ${again}`)
  }
  const missing = firstMissing(document, documentShape, '')
  if (missing !== null)
    throw new AuditError(
      `${path}: this document of arke audit is of another version or damaged (${missing}); ${again}`,
    )
  return document as AuditDocument
}

type Shape = 'number' | 'number or null' | 'text' | 'text or null' | 'anything' | Members | Elements
interface Members {
  readonly [key: string]: Shape
}
/** The fields and types that all elements of an array must have. */
interface Elements {
  readonly each: Shape
  readonly orNull?: boolean
}
const isElements = (shape: Members | Elements): shape is Elements => 'each' in shape
const each = (shape: Shape): Elements => ({ each: shape })
const numbers = each('number')

const rankShape: Members = {
  rank: 'number',
  wallUs: 'number',
  idleUs: 'number',
  computeUs: 'number',
  overlapPct: 'number or null',
  exposedCommUs: 'number',
  launches: 'number',
  idle: { dispatchUs: 'number', gapUs: 'number' },
  taxes: {
    launchUs: 'number',
    waitUs: 'number or null',
    exposedTransferUs: 'number or null',
    localityBytes: 'number or null',
    localityUs: { each: 'number', orNull: true },
    otherUs: 'number',
  },
  other: { unsplitCommUs: 'number' },
}

/**
 * The fields that the terminal and a comparison need. Fields that neither the terminal nor a comparison needs are not
 * checked.
 */
const documentShape: Members = {
  arke: 'text',
  sources: each({ path: 'text', bytes: 'number', ranks: numbers }),
  ranks: each(rankShape),
  steps: each({ number: 'number', ranks: each(rankShape) }),
  collectives: each('anything'),
  clocks: each({
    rank: 'number',
    correctionUs: 'number',
    residualUs: 'number or null',
  }),
  stragglers: each({
    rank: 'number',
    exposedWaitUs: 'number',
    collectives: 'number',
    meanwhile: each({ what: 'text', name: 'text or null', operator: 'text or null' }),
  }),
  candidates: each({ chain: each('text'), count: 'number', savesUs: 'number' }),
  summary: each('text'),
  warnings: each({ class: 'text', message: 'text', count: 'number' }),
}

/** Describes the first field of a document that does not match `shape`, or returns null if all fields match. */
function firstMissing(value: unknown, shape: Shape, where: string): string | null {
  const bad = (what: string): string =>
    value === undefined ? `there is no ${where || 'value'}` : `${where || 'it'} is no ${what}`
  if (shape === 'anything') return null
  if (typeof shape === 'string') {
    if (value === null && shape.endsWith('or null')) return null
    const isNumber = shape.startsWith('number')
    return typeof value === (isNumber ? 'number' : 'string') ? null : bad(isNumber ? 'number' : 'text')
  }
  if (isElements(shape)) {
    if (value === null && shape.orNull) return null
    if (!Array.isArray(value)) return bad('list')
    for (const [i, one] of value.entries()) {
      const missing = firstMissing(one, shape.each, `${where}[${i}]`)
      if (missing !== null) return missing
    }
    return null
  }
  if (typeof value !== 'object' || value === null) return bad('object')
  for (const [key, of] of Object.entries(shape)) {
    const missing = firstMissing((value as Record<string, unknown>)[key], of, where ? `${where}.${key}` : key)
    if (missing !== null) return missing
  }
  return null
}
