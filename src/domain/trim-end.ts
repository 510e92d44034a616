/** Removes every occurrence of this character from the end of the text. */
export function trimEnd(text: string, character: string): string {
  let end = text.length
  while (end > 0 && text[end - 1] === character) end--
  return text.slice(0, end)
}
