/**
 * What the command `sibyl` takes from the environment. It is the trader's, not the exchange's: where
 * both run on one machine, the exchange passes over it.
 */

export const COMMAND_VARIABLES: ReadonlySet<string> = new Set([
  'SIBYL_URL',
  'SIBYL_TRADER_KEY',
  'SIBYL_KEYS_DIR',
])

export function commandEnvironment(): Readonly<Record<string, string | undefined>> {
  return Object.fromEntries([...COMMAND_VARIABLES].map((name) => [name, process.env[name]]))
}
