/** The help of a command of the tests. */

/** Prints it and ends the process where somebody asks for it, before anything is run. */
export function endWithHelp(text: string): void {
  if (!process.argv.some((each) => each === '--help' || each === '-h')) return
  process.stdout.write(text)
  process.exit(0)
}
