/**
 * Thrown if the input leaves nothing to audit. The message is one line that names the path, the problem and the remedy.
 */
export class AuditError extends Error {
  override readonly name = 'AuditError'
}
