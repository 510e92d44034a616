/** Prints the help of a test command. */

/** If help was requested, prints it and ends the process before anything runs. */
export function endWithHelp(text: string): void {
  if (!process.argv.some((each) => each === '--help' || each === '-h')) return
  process.stdout.write(text)
  process.exit(0)
}
