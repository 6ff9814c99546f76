/**
 * The record of a declaration in the device library: a type, a struct or a function that emitted CUDA C++ names. A
 * kernel includes the declarations that its code uses, and the ones that those use.
 */

export const inline = '__device__ __forceinline__'

export interface Declaration {
  /** The lines of the comment above the declaration. */
  readonly note?: readonly string[]
  /** The names of the other declarations that the text mentions. */
  readonly uses: readonly string[]
  readonly text: string
}

/** Declarations by name, in the order in which a kernel includes them. */
export type Library = Readonly<Record<string, Declaration>>

/** A declaration that is made for one kernel. */
export interface MadeDeclaration extends Declaration {
  readonly name: string
}
