// What sinkviz.view.bundle turns into constants.
// Check the JSDoc types of the view: npx -p typescript@5 tsc -p tests/view/types
declare module "*.css" {
  const text: string;
  export default text;
}
declare module "*.html" {
  const text: string;
  export default text;
}
declare module "*.json" {
  const value: any;
  export default value;
}
