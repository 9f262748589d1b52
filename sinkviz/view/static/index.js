/** Entry point: what Streamlit's components v2 call, again and again on the same element. */

import { View } from "./view.js";

/** @type {WeakMap<object, View>} */
const views = new WeakMap();

/**
 * @param {string} program source of this bundle, for the offline file
 * @returns {(component: import("./view.js").Component) => () => void}
 */
export default function mounter(program) {
  return (component) => {
    const { parentElement } = component;
    let view = views.get(parentElement);
    if (!view) {
      view = new View(component, program);
      views.set(parentElement, view);
    }
    view.update(component);
    return () => {
      views.get(parentElement)?.destroy();
      views.delete(parentElement);
    };
  };
}
