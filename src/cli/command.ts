/** A command: its name, options, help text and action. */

import { OptionError } from '#devnet/command.ts'

export type Option = {
  /** Placeholder for the option's value in the help, such as `<seconds>`; undefined for a switch. */
  readonly value?: string
  readonly help: string
  readonly default?: string
  readonly required?: true
}

export type Options = Readonly<Record<string, Option>>

/** Values of options by name: a string, or true or false for a switch. */
export type Values<O extends Options> = {
  readonly [Name in keyof O]: O[Name] extends { readonly value: string }
    ? O[Name] extends { readonly default: string } | { readonly required: true }
      ? string
      : string | undefined
    : boolean
}

/** Environment, outputs and stop signal of a command. */
export type CommandIo = {
  readonly env: Readonly<Record<string, string | undefined>>
  /** Writes to the standard output; drops the text if the reader of the output has closed the pipe. */
  readonly out: (text: string) => void
  /** Writes to the standard error. */
  readonly err: (text: string) => void
  /** Aborts when the user stops the command, or when the reader of the command's output closes the pipe. */
  readonly signal: AbortSignal
}

export type Call<O extends Options> = {
  readonly values: Values<O>
  readonly positionals: readonly string[]
  readonly io: CommandIo
}

export type Command<O extends Options = Options> = {
  /** Name of the command: one word, or two such as `order buy`. */
  readonly name: string
  /** Positional arguments as the help shows them: `<market> [<outcome>]`. */
  readonly takes: string
  /** Description of the command, shown in the list of commands and at the top of the command's help. */
  readonly about: string
  /** Further lines for the command's own help. */
  readonly more?: string
  readonly options: O
  /** Returns the exit code; 0 by default. */
  run(call: Call<O>): Promise<number | undefined>
}

/** Returns the definition as a command. TypeScript derives the argument types of `run` from the options. */
export function command<const O extends Options>(definition: Command<O>): Command {
  return definition as unknown as Command
}

export const URL_OPTION = {
  value: '<url>',
  help: 'address of the exchange; by default SIBYL_URL, otherwise http://127.0.0.1:8080',
} as const satisfies Option

const JSON_OPTION = { help: 'prints JSON' } as const satisfies Option

/** Options of commands that read from the exchange. */
export const READ_OPTIONS = { url: URL_OPTION, json: JSON_OPTION } as const

/** Options of commands that use the trader's key. */
export const SIGN_OPTIONS = {
  ...READ_OPTIONS,
  'key-file': {
    value: '<path>',
    help: "a file with the trader's private key; without it, SIBYL_TRADER_KEY is used",
  },
  account: {
    value: '<n>',
    help: 'instead of --key-file, only on the local chain: a well-known account, 10 to 19',
  },
  for: { value: '<address>', help: 'the account for which the key signs as a delegate' },
  'chain-id': { value: '<id>', help: 'the chain, if the exchange has several' },
} as const

/** Returns the minimum and maximum number of positional arguments in a usage line: `<a> [<b>]` means one or two. */
export function positionalsOf({ takes }: Pick<Command, 'takes'>): { min: number; max: number } {
  const max = takes.includes('…') ? Number.POSITIVE_INFINITY : takes.split('<').length - 1
  return { min: takes.replace(/\[[^[\]]*\]/g, '').split('<').length - 1, max }
}

/** Returns the entry of `words` that equals the argument, ignoring letter case. Throws if there is no such entry. */
export function readWord<const W extends string>(
  name: string,
  text: string,
  words: readonly W[],
): W {
  const found = words.find((word) => word.toLowerCase() === text.toLowerCase())
  if (found !== undefined) return found
  throw new OptionError(`${name} must be ${words.join(' or ')}, not '${text}'`)
}
