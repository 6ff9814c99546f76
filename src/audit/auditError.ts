/** Input that leaves nothing to audit; the message is one line: which path, what is wrong, what to do. */
export class AuditError extends Error {
  override readonly name = 'AuditError'
}
