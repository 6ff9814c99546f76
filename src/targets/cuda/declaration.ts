/**
 * Defines the record of a declaration in the device library: a type, struct or function that emitted CUDA C++ can use.
 * A kernel includes the declarations that its code uses, and all declarations on which these depend.
 */

export const inline = '__device__ __forceinline__'

export interface Declaration {
  /** The lines of the comment that the emitter writes above the declaration. */
  readonly note?: readonly string[]
  /** The names of the other declarations that the text of this declaration uses. */
  readonly uses: readonly string[]
  readonly text: string
}

/** The declarations of the device library by name, in the order in which a kernel includes them. */
export type Library = Readonly<Record<string, Declaration>>

/** A declaration that the emitter generates for one kernel. */
export interface MadeDeclaration extends Declaration {
  readonly name: string
}
